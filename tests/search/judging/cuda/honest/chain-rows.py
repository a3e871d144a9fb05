import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def chain(x, shift, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(x + row * columns + at, mask=kept)
    y = value + tl.load(shift + at, mask=kept)
    clamped = tl.where(y < -1.0, -1.0, tl.where(y > 2.0, 2.0, y))
    tl.store(out + row * columns + at, y / (1 + tl.exp(-y)) * 0.5 + clamped + value, mask=kept)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        chain[(rows, triton.cdiv(columns, 512))](x, self.shift, out, columns, BLOCK=512)
        return out
