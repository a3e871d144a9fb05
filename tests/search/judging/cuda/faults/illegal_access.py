# expect: crashed | illegal|memory
"""Writes far outside of its memory."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def beyond(y, far):
    tl.store(y + far, 1.0)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        y = torch.empty_like(x)
        beyond[(1,)](y, 1 << 45)
        return y
