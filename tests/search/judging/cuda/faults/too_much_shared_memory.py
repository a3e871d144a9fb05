# expect: crashed|build_failed | shared|resource
"""Wants a tile that no multiprocessor holds."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def wide(a, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tile = tl.load(a + at[:, None] * N + at[None, :])
    tl.store(y + at[:, None] * N + at[None, :], tl.dot(tile, tile))


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        y = torch.empty_like(x)
        wide[(1,)](x, y, N=512)
        return y
