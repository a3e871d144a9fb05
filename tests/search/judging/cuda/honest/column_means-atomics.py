import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add(x, y, rows, columns, piece, BR: tl.constexpr, BC: tl.constexpr):
    column = tl.program_id(0) * BC + tl.arange(0, BC)
    split = tl.program_id(1)
    last = tl.minimum((split + 1) * piece, rows)
    total = tl.zeros((BR, BC), tl.float32)
    for start in range(split * piece, last, BR):
        row = start + tl.arange(0, BR)
        kept = (row[:, None] < last) & (column[None, :] < columns)
        total += tl.load(x + row[:, None] * columns + column[None, :], mask=kept, other=0.0)
    tl.atomic_add(y + column, tl.sum(total, 0) / rows, mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.zeros(columns, device=x.device)
        add[(triton.cdiv(columns, 32), 32)](x, y, rows, columns, triton.cdiv(rows, 32), BR=32, BC=32)
        return y
