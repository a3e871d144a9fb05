import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def iterate(x, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(x + at, mask=at < size)
    value = start
    for _ in range(24):
        value = tl.sin(value) * 0.9 + start * 0.1
    tl.store(y + at, value, mask=at < size)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        iterate[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
