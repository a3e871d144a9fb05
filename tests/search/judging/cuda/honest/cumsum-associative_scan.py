import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def pieces(x, y, sums, columns, piece, BLOCK: tl.constexpr):
    row, split = tl.program_id(0), tl.program_id(1)
    at = split * piece + tl.arange(0, BLOCK)
    kept = (tl.arange(0, BLOCK) < piece) & (at < columns)
    value = tl.load(x + row * columns + at, mask=kept, other=0.0)
    tl.store(y + row * columns + at, tl.associative_scan(value, 0, plus), mask=kept)
    tl.store(sums + row * tl.num_programs(1) + split, tl.sum(value, 0))


@triton.jit
def carry(y, sums, columns, piece, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    row, split = tl.program_id(0), tl.program_id(1)
    before = tl.arange(0, SPLITS)
    carried = tl.sum(tl.load(sums + row * SPLITS + before, mask=before < split, other=0.0), 0)
    at = split * piece + tl.arange(0, BLOCK)
    kept = (tl.arange(0, BLOCK) < piece) & (at < columns)
    tl.store(y + row * columns + at, tl.load(y + row * columns + at, mask=kept) + carried, mask=kept)


class ModelNew(nn.Module):
    """Scans the pieces of a row side by side, then adds to each what comes before it."""

    def forward(self, x):
        rows, columns = x.shape
        piece = triton.cdiv(columns, 8)
        block = triton.next_power_of_2(piece)
        y, sums = torch.empty_like(x), torch.empty(rows, 8, device=x.device)
        pieces[(rows, 8)](x, y, sums, columns, piece, BLOCK=block)
        carry[(rows, 8)](y, sums, columns, piece, SPLITS=8, BLOCK=block)
        return y
