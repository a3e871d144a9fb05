import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm_row(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
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


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        norm_row[(rows,)](
            x, self.norm.weight, self.norm.bias, y, columns, self.norm.eps,
            BLOCK=triton.next_power_of_2(columns), num_warps=4,
        )
        return y
