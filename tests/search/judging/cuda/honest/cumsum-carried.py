import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scan_row(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carried = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
        tl.store(y + row * columns + at, tl.cumsum(value, 0) + carried, mask=at < columns)
        carried += tl.sum(value, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        scan_row[(rows,)](x, y, columns, BLOCK=1024 if x.is_cuda else 64)
        return y
