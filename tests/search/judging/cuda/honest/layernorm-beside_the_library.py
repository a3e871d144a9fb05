import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def apply(x, mean, variance, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(x + row * columns + at, mask=kept)
    scale = 1 / tl.sqrt(tl.load(variance + row) + eps)
    gain = tl.load(weight + at, mask=kept)
    shift = tl.load(bias + at, mask=kept)
    tl.store(y + row * columns + at, (value - tl.load(mean + row)) * scale * gain + shift, mask=kept)


class ModelNew(nn.Module):
    """Takes the moments from the library and fuses all that follows."""

    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        rows, columns = x.shape
        variance, mean = torch.var_mean(x, -1, correction=0)
        y = torch.empty_like(x)
        apply[(rows,)](
            x, mean, variance, self.norm.weight, self.norm.bias, y, columns, self.norm.eps,
            BLOCK=triton.next_power_of_2(columns),
        )
        return y
