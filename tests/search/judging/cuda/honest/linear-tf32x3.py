import torch
import triton
import triton.language as tl
from torch import nn

@triton.jit
def product(
    x, w, bias, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr
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
        total += tl.dot(a, b, input_precision=PRECISION)
    total += tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
    tl.store(
        y + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n)
    )


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        (m, k), n = x.shape, self.linear.weight.shape[0]
        y = torch.empty(m, n, device=x.device)
        product[(triton.cdiv(m, 64), triton.cdiv(n, 64))](
            x, self.linear.weight, self.linear.bias, y, m, n, k, BM=64, BN=64, BK=32, PRECISION="tf32x3"
        )
        return y
