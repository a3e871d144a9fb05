import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add(x, y, columns, piece, BLOCK: tl.constexpr):
    row, split = tl.program_id(0), tl.program_id(1)
    last = tl.minimum((split + 1) * piece, columns)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(split * piece, last, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + at, mask=at < last, other=0.0)
    tl.atomic_add(y + row, tl.sum(total, 0))


class ModelNew(nn.Module):
    """Adds the pieces of a row into an output that is zeroed first."""

    def forward(self, x):
        rows, columns = x.shape
        y = torch.zeros(rows, device=x.device)
        add[(rows, 32)](x, y, columns, triton.cdiv(columns, 32), BLOCK=1024)
        return y
