# expect: crashed|build_failed | shared|resource
"""Wants a tile that no multiprocessor holds."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def wide(a, b, y, K: tl.constexpr):
    row, at = tl.arange(0, 64), tl.arange(0, K)
    left = tl.load(a + row[:, None] * K + at[None, :])
    right = tl.load(b + at[:, None] * 64 + row[None, :])
    tl.store(y + row[:, None] * 64 + row[None, :], tl.dot(left, right))


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        y = torch.empty_like(x)
        wide[(1,)](x, x, y, K=1024, num_warps=8)
        return y
