import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def part(x, partial, columns, piece, BLOCK: tl.constexpr):
    row, split = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, BLOCK)
    kept = (at < piece) & (split * piece + at < columns)
    value = tl.load(x + row * columns + split * piece + at, mask=kept, other=0.0)
    count = tl.sum(kept.to(tl.float32), 0)
    mean = tl.sum(value, 0) / tl.maximum(count, 1.0)
    gap = tl.where(kept, value - mean, 0.0)
    place = partial + (row * tl.num_programs(1) + split) * 3
    tl.store(place, count)
    tl.store(place + 1, mean)
    tl.store(place + 2, tl.sum(gap * gap, 0))


@triton.jit
def whole(x, partial, weight, bias, y, columns, piece, eps, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    row, split = tl.program_id(0), tl.program_id(1)
    parts = partial + (row * SPLITS + tl.arange(0, SPLITS)) * 3
    count, means, m2 = tl.load(parts), tl.load(parts + 1), tl.load(parts + 2)
    mean = tl.sum(count * means, 0) / columns
    gaps = means - mean
    scale = 1 / tl.sqrt(tl.sum(m2 + count * gaps * gaps, 0) / columns + eps)
    at = split * piece + tl.arange(0, BLOCK)
    kept = (tl.arange(0, BLOCK) < piece) & (at < columns)
    value = tl.load(x + row * columns + at, mask=kept)
    gain = tl.load(weight + at, mask=kept)
    tl.store(y + row * columns + at, (value - mean) * scale * gain + tl.load(bias + at, mask=kept), mask=kept)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        rows, columns = x.shape
        piece = triton.cdiv(columns, 4)
        partial = torch.empty(rows, 4, 3, device=x.device)
        y = torch.empty_like(x)
        block = triton.next_power_of_2(piece)
        part[(rows, 4)](x, partial, columns, piece, BLOCK=block)
        whole[(rows, 4)](
            x, partial, self.norm.weight, self.norm.bias, y, columns, piece, self.norm.eps, SPLITS=4, BLOCK=block
        )
        return y
