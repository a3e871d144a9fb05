# expect: crashed|build_failed | .
"""Uses a name that is not there inside of a kernel."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def unknown(y):
    tl.store(y, nothing_of_this_name)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        y = torch.zeros_like(x)
        unknown[(1,)](y)
        return y
