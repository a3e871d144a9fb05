# expect: wrong | they must be equal
# task: count
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return (x > 0).to(torch.int8).sum(-1, dtype=torch.int8).long()
