# expect: refused no-own-kernel | kernel
"""Is the reference under another name."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return torch.nn.functional.layer_norm(
            x, (x.shape[-1],), self.norm.weight, self.norm.bias, self.norm.eps
        )
