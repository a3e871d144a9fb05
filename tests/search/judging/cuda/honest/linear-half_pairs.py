import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def split(x, high, low, scales, k, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    kept = at < k
    value = tl.load(x + row * k + at, mask=kept, other=0.0)
    top = tl.maximum(tl.max(tl.abs(value), 0), 1e-30)
    scale = tl.exp2(tl.ceil(tl.log2(top)))
    value = value / scale * 1024.0
    upper = value.to(tl.float16)
    tl.store(high + row * k + at, upper, mask=kept)
    tl.store(low + row * k + at, (value - upper.to(tl.float32)).to(tl.float16), mask=kept)
    tl.store(scales + row, scale / 1024.0)


@triton.jit
def product(
    ah, al, sa, bh, bl, sb, bias, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        at = start + tl.arange(0, BK)
        left = rows[:, None] * k + at[None, :]
        right = columns[None, :] * k + at[:, None]
        inside = (rows[:, None] < m) & (at[None, :] < k)
        within = (columns[None, :] < n) & (at[:, None] < k)
        a = tl.load(ah + left, mask=inside, other=0.0)
        b = tl.load(bh + right, mask=within, other=0.0)
        part = tl.dot(a, tl.load(bl + right, mask=within, other=0.0))
        part = tl.dot(tl.load(al + left, mask=inside, other=0.0), b, part)
        total += tl.dot(a, b, part)
    scale = tl.load(sa + rows, mask=rows < m, other=0.0)[:, None] * tl.load(sb + columns, mask=columns < n, other=0.0)[None, :]
    total = total * scale + tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
    tl.store(
        y + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n)
    )


def halves(x):
    rows, k = x.shape
    high, low = torch.empty(2, rows, k, dtype=torch.float16, device=x.device)
    scales = torch.empty(rows, device=x.device)
    split[(rows,)](x, high, low, scales, k, BLOCK=triton.next_power_of_2(k))
    return high, low, scales


class ModelNew(nn.Module):
    """Splits each factor into two halves of a scaled number, and leaves the smallest product out."""

    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        (m, k), n = x.shape, self.linear.weight.shape[0]
        y = torch.empty(m, n, device=x.device)
        product[(triton.cdiv(m, 64), triton.cdiv(n, 64))](
            *halves(x), *halves(self.linear.weight), self.linear.bias, y, m, n, k, BM=64, BN=64, BK=32
        )
        return y
