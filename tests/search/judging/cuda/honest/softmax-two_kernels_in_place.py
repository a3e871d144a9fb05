import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def powers(x, y, sums, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(x + row * columns + at, mask=kept, other=float("-inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * columns + at, power, mask=kept)
    tl.store(sums + row, tl.sum(power, 0))


@triton.jit
def divide(y, sums, columns, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    kept = at < count
    value = tl.load(y + at, mask=kept) / tl.load(sums + at // columns, mask=kept, other=1.0)
    tl.store(y + at, value, mask=kept)


class ModelNew(nn.Module):
    """Scales a temporary of its own in place."""

    def forward(self, x):
        rows, columns = x.shape
        y, sums = torch.empty_like(x), torch.empty(rows, device=x.device)
        powers[(rows,)](x, y, sums, columns, BLOCK=triton.next_power_of_2(columns))
        divide[(triton.cdiv(x.numel(), 4096),)](y, sums, columns, x.numel(), BLOCK=4096)
        return y
