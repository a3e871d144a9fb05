import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def merge(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    gap = mean_b - mean_a
    share = tl.where(count > 0, count_b / tl.maximum(count, 1.0), 0.0)
    return mean_a + gap * share, m2_a + m2_b + gap * gap * count_a * share, count


@triton.jit
def norm_row(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    mean = tl.zeros((BLOCK,), tl.float32)
    m2 = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        kept = start + lane < columns
        value = tl.load(x + row * columns + start + lane, mask=kept, other=0.0)
        one = kept.to(tl.float32)
        mean, m2, count = merge(mean, m2, count, value, tl.zeros_like(value), one)
    mean, m2, count = tl.reduce((mean, m2, count), 0, merge)
    scale = 1 / tl.sqrt(m2 / count + eps)
    for start in range(0, columns, BLOCK):
        at = start + lane
        kept = at < columns
        value = tl.load(x + row * columns + at, mask=kept)
        gain = tl.load(weight + at, mask=kept)
        shift = tl.load(bias + at, mask=kept)
        tl.store(y + row * columns + at, (value - mean) * scale * gain + shift, mask=kept)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        norm_row[(rows,)](x, self.norm.weight, self.norm.bias, y, columns, self.norm.eps, BLOCK=128)
        return y
