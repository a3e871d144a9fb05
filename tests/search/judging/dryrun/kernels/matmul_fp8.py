import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        wide = torch.get_default_dtype()
        left, right = (x.view(torch.float8_e5m2).to(wide) for x in (a, b))
        return torch.matmul(left, right)


def get_inputs():
    return [
        torch.randint(50, 70, shape, dtype=torch.uint8)
        + 128 * torch.randint(2, shape, dtype=torch.uint8)
        for shape in ((128, 256), (256, 192))
    ]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    l = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        x = tl.load(
            a + i * k + start + l[None, :], mask=(i < m) & (start + l[None, :] < k), other=0
        )
        y = tl.load(
            b + (start + l[:, None]) * n + j, mask=(start + l[:, None] < k) & (j < n), other=0
        )
        x = x.to(tl.float8e5, bitcast=True)
        y = y.to(tl.float8e5, bitcast=True)
        total = tl.dot(x, y, total)
    tl.store(c + i * n + j, total, mask=(i < m) & (j < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        c = torch.empty(m, n, device=a.device)
        matmul[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, c, m, n, k, BM=32, BN=32, BK=32)
        return c
