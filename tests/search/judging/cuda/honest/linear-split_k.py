import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def product(
    x, w, y, m, n, k, piece, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    first = tl.program_id(2) * piece
    last = tl.minimum(first + piece, k)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(first, last, BK):
        at = start + tl.arange(0, BK)
        a = tl.load(
            x + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < last), other=0.0
        )
        b = tl.load(
            w + columns[None, :] * k + at[:, None], mask=(columns[None, :] < n) & (at[:, None] < last), other=0.0
        )
        total += tl.dot(a, b, input_precision="ieee")
    kept = (rows[:, None] < m) & (columns[None, :] < n)
    tl.atomic_add(y + rows[:, None] * n + columns[None, :], total, mask=kept)


@triton.jit
def fill(bias, y, count, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(bias + at % n, mask=at < count), mask=at < count)


class ModelNew(nn.Module):
    """Adds the parts of a long inner dimension into an output that holds the bias first."""

    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        (m, k), n = x.shape, self.linear.weight.shape[0]
        y = torch.empty(m, n, device=x.device)
        fill[(triton.cdiv(m * n, 4096),)](self.linear.bias, y, m * n, n, BLOCK=4096)
        product[(triton.cdiv(m, 64), triton.cdiv(n, 64), 4)](
            x, self.linear.weight, y, m, n, k, triton.cdiv(k, 4), BM=64, BN=64, BK=32
        )
        return y
