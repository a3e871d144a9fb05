import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def shifted(x, shift, out, count, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < count
    tl.store(out + at, tl.load(x + at, mask=kept) + tl.load(shift + at % columns, mask=kept), mask=kept)


@triton.jit
def finish(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < count
    y = tl.load(out + at, mask=kept)
    clamped = tl.minimum(tl.maximum(y, -1.0), 2.0)
    tl.store(out + at, y / (1 + tl.exp(-y)) * 0.5 + clamped + tl.load(x + at, mask=kept), mask=kept)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        out, count = torch.empty_like(x), x.numel()
        grid = (triton.cdiv(count, 1024),)
        shifted[grid](x, self.shift, out, count, x.shape[-1], BLOCK=1024)
        finish[grid](x, out, count, BLOCK=1024)
        return out
