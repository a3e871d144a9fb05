# expect: wrong | the value at an index must be the right one
# task: extreme
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros(64, dtype=torch.int64)
