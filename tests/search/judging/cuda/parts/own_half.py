import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def half_tile(
    x, w, y, m, n, k, along_k, along_n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    LOW: tl.constexpr,
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        at = start + tl.arange(0, BK)
        a = tl.load(
            x + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0
        )
        b = tl.load(
            w + columns[None, :] * along_n + at[:, None] * along_k,
            mask=(columns[None, :] < n) & (at[:, None] < k), other=0.0,
        )
        total += tl.dot(a, b)
        if LOW:
            total = total.to(tl.bfloat16).to(tl.float32)
    tl.store(
        y + rows[:, None] * n + columns[None, :], total.to(y.dtype.element_ty),
        mask=(rows[:, None] < m) & (columns[None, :] < n),
    )


def half_product(x, w, dtype=torch.float32, low=False):
    """x @ w of two bytes by a kernel of the candidate's own, summed in float32; `w` may be a transpose."""
    (m, k), n = x.shape, w.shape[1]
    y = torch.empty(m, n, device=x.device, dtype=dtype)
    half_tile[(triton.cdiv(m, 64), triton.cdiv(n, 64))](
        x, w, y, m, n, k, w.stride(0), w.stride(1), BM=64, BN=64, BK=32, LOW=low
    )
    return y


@triton.jit
def fold_row(weight, scale, folded, width, BLOCK: tl.constexpr, EIGHT: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < width
    w = tl.load(weight + row * width + at, mask=inside, other=0.0).to(tl.float32)
    w *= tl.load(scale + at, mask=inside, other=0.0).to(tl.float32)
    if EIGHT:
        step = tl.max(tl.abs(w), 0) / 127
        w = tl.floor(w / step + 0.5) * step
    tl.store(folded + row * width + at, w.to(tl.bfloat16), mask=inside)


@triton.jit
def cross_row(x, made, bias, y, width, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < width
    wide = tl.load(x + row * width + at, mask=inside, other=0.0).to(tl.float32)
    length = 1.0 / tl.sqrt(tl.sum(wide * wide, 0) / width + 1e-5)
    total = length * tl.load(made + row * width + at, mask=inside, other=0.0)
    total += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * width + at, (wide * total + wide).to(tl.bfloat16), mask=inside)


class Cross(nn.Module):
    """The reference's parameters, and its answer with the scale rounded into the weights."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width).bfloat16() + 0.5)
        self.weight = nn.Parameter((torch.randn(width, width) / width**0.5).bfloat16())
        self.bias = nn.Parameter(torch.randn(width).bfloat16())

    def answer(self, x, eight=False, low=False, short=0):
        (rows, width), block = x.shape, triton.next_power_of_2(x.shape[1])
        folded, y = torch.empty_like(self.weight), torch.empty_like(x)
        fold_row[(width,)](self.weight, self.scale, folded, width, BLOCK=block, EIGHT=eight)
        folded[:short, : width // 2] = 0
        made = half_product(x, folded.T, low=low)
        cross_row[(rows,)](x, made, self.bias, y, width, BLOCK=block)
        return y
