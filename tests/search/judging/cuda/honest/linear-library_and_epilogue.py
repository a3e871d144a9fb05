import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_bias(product, bias, y, count, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < count
    tl.store(y + at, tl.load(product + at, mask=kept) + tl.load(bias + at % n, mask=kept), mask=kept)


class ModelNew(nn.Module):
    """Leaves the product to the library, as an engineer may, and adds the bias by itself."""

    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        product = torch.mm(x, self.linear.weight.t())
        y = torch.empty_like(product)
        count, n = y.numel(), y.shape[1]
        add_bias[(triton.cdiv(count, 2048),)](product, self.linear.bias, y, count, n, BLOCK=2048)
        return y
