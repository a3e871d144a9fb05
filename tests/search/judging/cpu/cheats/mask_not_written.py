# expect: wrong | differs from the reference
# task: mask
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(128, 256, dtype=torch.bool)
        out[:127] = (x > y)[:127]
        return out
