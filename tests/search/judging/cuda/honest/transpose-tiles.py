import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def turn(x, y, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    kept = (row[:, None] < rows) & (column[None, :] < columns)
    tile = tl.load(x + row[:, None] * columns + column[None, :], mask=kept)
    tl.store(y + column[:, None] * rows + row[None, :], tl.trans(tile) * 2, mask=tl.trans(kept))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(columns, rows, device=x.device)
        turn[(triton.cdiv(rows, 64), triton.cdiv(columns, 64))](x, y, rows, columns, BLOCK=64)
        return y
