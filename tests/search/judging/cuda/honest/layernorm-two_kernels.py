import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def moments(x, kept_mean, kept_scale, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(x + row * columns + at, mask=kept, other=0.0)
    mean = tl.sum(value, 0) / columns
    gap = tl.where(kept, value - mean, 0.0)
    tl.store(kept_mean + row, mean)
    tl.store(kept_scale + row, 1 / tl.sqrt(tl.sum(gap * gap, 0) / columns + eps))


@triton.jit
def apply(x, kept_mean, kept_scale, weight, bias, y, columns, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    kept = at < count
    row, column = at // columns, at % columns
    value = tl.load(x + at, mask=kept)
    gap = value - tl.load(kept_mean + row, mask=kept)
    gain = tl.load(kept_scale + row, mask=kept) * tl.load(weight + column, mask=kept)
    tl.store(y + at, gap * gain + tl.load(bias + column, mask=kept), mask=kept)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        rows, columns = x.shape
        mean, scale = torch.empty(2, rows, device=x.device)
        y = torch.empty_like(x)
        moments[(rows,)](x, mean, scale, columns, self.norm.eps, BLOCK=triton.next_power_of_2(columns))
        apply[(triton.cdiv(x.numel(), 2048),)](
            x, mean, scale, self.norm.weight, self.norm.bias, y, columns, x.numel(), BLOCK=2048
        )
        return y
