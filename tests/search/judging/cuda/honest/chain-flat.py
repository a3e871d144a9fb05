import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def silu(y):
    return y / (1 + tl.exp(-y))


@triton.jit
def chain(x, shift, out, count, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < count
    value = tl.load(x + at, mask=kept)
    y = value + tl.load(shift + at % columns, mask=kept)
    clamped = tl.minimum(tl.maximum(y, -1.0), 2.0)
    tl.store(out + at, silu(y) * 0.5 + clamped + value, mask=kept)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        out = torch.empty_like(x)
        chain[(triton.cdiv(x.numel(), 1024),)](x, self.shift, out, x.numel(), x.shape[-1], BLOCK=1024)
        return out
