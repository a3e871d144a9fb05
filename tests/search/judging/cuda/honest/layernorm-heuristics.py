import torch
import triton
import triton.language as tl
from torch import nn


@triton.heuristics(
    {
        "BLOCK": lambda given: triton.next_power_of_2(given["columns"]),
        "EVEN": lambda given: given["columns"] == triton.next_power_of_2(given["columns"]),
    }
)
@triton.jit
def norm_row(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    if EVEN:
        value = tl.load(x + row * columns + at)
        mean = tl.sum(value, 0) / BLOCK
        gap = value - mean
        scale = tl.rsqrt(tl.sum(gap * gap, 0) / BLOCK + eps)
        tl.store(y + row * columns + at, gap * scale * tl.load(weight + at) + tl.load(bias + at))
    else:
        kept = at < columns
        value = tl.load(x + row * columns + at, mask=kept, other=0.0)
        mean = tl.sum(value, 0) / columns
        gap = tl.where(kept, value - mean, 0.0)
        scale = tl.rsqrt(tl.sum(gap * gap, 0) / columns + eps)
        gain = tl.load(weight + at, mask=kept)
        tl.store(y + row * columns + at, gap * scale * gain + tl.load(bias + at, mask=kept), mask=kept)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        norm_row[(rows,)](x, self.norm.weight, self.norm.bias, y, columns, self.norm.eps)
        return y
