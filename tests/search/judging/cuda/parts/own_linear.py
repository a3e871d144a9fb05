import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def own_linear_tile(
    x, w, bias, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PRECISION: tl.constexpr, LOW: tl.constexpr,
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        at = start + inner
        a = tl.load(
            x + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0
        )
        b = tl.load(
            w + columns[None, :] * k + at[:, None], mask=(columns[None, :] < n) & (at[:, None] < k), other=0.0
        )
        if LOW is None:
            total += tl.dot(a, b, input_precision=PRECISION)
        else:
            total += tl.dot(a.to(LOW), b.to(LOW))
    total += tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
    tl.store(
        y + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n)
    )


def own_linear(x, linear, precision="ieee", low=None):
    """A linear layer by a kernel of the candidate's own: what an honest answer would be."""
    m, k = x.shape
    n = linear.weight.shape[0]
    y = torch.empty(m, n, device=x.device)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    own_linear_tile[grid](
        x, linear.weight, linear.bias, y, m, n, k, BM=64, BN=64, BK=32, PRECISION=precision, LOW=low
    )
    return y


@triton.jit
def nudge(y):
    tl.store(y, tl.load(y))


class Linear(nn.Module):
    """The reference's parameters."""

    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)
