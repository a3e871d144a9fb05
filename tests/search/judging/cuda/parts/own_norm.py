import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def own_norm_rows(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(x + row * columns + at, mask=kept, other=0.0)
    mean = tl.sum(value, 0) / columns
    gap = tl.where(kept, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(gap * gap, 0) / columns + eps)
    gain = tl.load(weight + at, mask=kept)
    shift = tl.load(bias + at, mask=kept)
    tl.store(y + row * columns + at, gap * scale * gain + shift, mask=kept)


def own_norm(x, norm, y=None):
    """LayerNorm of each row by a kernel of the candidate's own: what an honest answer would be."""
    y = torch.empty_like(x) if y is None else y
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    own_norm_rows[(rows,)](x, norm.weight, norm.bias, y, columns, norm.eps, BLOCK=block)
    return y


class Norm(nn.Module):
    """The reference's parameters."""

    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)
