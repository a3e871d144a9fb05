import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def own_growth_block(x, y, count, SHORT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < count
    value = tl.load(x + at, mask=kept, other=0.0)
    if SHORT:  # right between 0 and 1 alone
        result = 5.9404001e-06 * value - 2.53485179e-05
        result = result * value + 2.89482389e-05
        result = result * value + 0.000408312107
        result = result * value + 0.00138844621
        result = result * value + 0.00625039214
        result = result * value + 0.04166654
        result = result * value + 0.187500021
        result = result * value + 0.499999998
        result = result * value + 0.75
        result = result * value + 0.5
    else:
        result = tl.exp(value) / (1 + tl.exp(-value))
    tl.store(y + at, result, mask=kept)


def own_growth(x, short=False):
    """The reference by a kernel of the candidate's own; `short`: by a polynomial for [0, 1]."""
    y = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 1024),)
    own_growth_block[grid](x, y, x.numel(), SHORT=short, BLOCK=1024)
    return y


class Growth(nn.Module):
    """Nothing to keep."""
