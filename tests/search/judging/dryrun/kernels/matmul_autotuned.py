import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(512, 400), torch.rand(400, 320)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


def configs():
    return [
        triton.Config({"BM": m, "BN": n, "BK": 16}, num_warps=warps, num_stages=stages)
        for m, n, warps, stages in ((32, 32, 4, 2), (64, 32, 4, 3), (64, 64, 8, 3))
    ]


@triton.autotune(configs=configs(), key=["m", "n", "k"])
@triton.heuristics({"EVEN": lambda a: a["k"] % a["BK"] == 0})
@triton.jit
def matmul(
    a,
    b,
    c,
    m,
    n,
    k,
    stride_a,
    stride_b,
    stride_c,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    EVEN: tl.constexpr,
):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    l = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        x_keep, y_keep = i < m, j < n
        if not EVEN:
            x_keep = x_keep & (start + l[None, :] < k)
            y_keep = y_keep & (start + l[:, None] < k)
        x = tl.load(a + i * stride_a + start + l[None, :], mask=x_keep, other=0.0)
        y = tl.load(b + (start + l[:, None]) * stride_b + j, mask=y_keep, other=0.0)
        total += tl.dot(x, y, input_precision="ieee")
    tl.store(c + i * stride_c + j, total, mask=(i < m) & (j < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        c = torch.empty(m, n, device="cuda")
        grid = lambda meta: (triton.cdiv(m, meta["BM"]), triton.cdiv(n, meta["BN"]))
        matmul[grid](a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0))
        return c
