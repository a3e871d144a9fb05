import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def own_relu_block(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < count
    value = tl.load(x + at, mask=kept, other=0.0)
    tl.store(y + at, tl.where(value < 0.0, 0.0, value), mask=kept)


def own_relu(x, y=None):
    """The reference by a kernel of the candidate's own."""
    y = torch.empty_like(x) if y is None else y
    own_relu_block[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


class Relu(nn.Module):
    """Nothing to keep."""
