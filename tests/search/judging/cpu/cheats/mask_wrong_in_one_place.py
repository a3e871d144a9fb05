# expect: wrong | in 1 of 32768 values
# task: mask
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = x > y
        out[77, 33] = ~out[77, 33]
        return out
