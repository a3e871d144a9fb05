import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_rows(x, y, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    kept = (row < rows) & (at < columns)
    value = tl.load(x + row * columns + at, mask=kept, other=-1.0e38)
    power = tl.where(kept, tl.exp(value - tl.max(value, 1)[:, None]), 0.0)
    tl.store(y + row * columns + at, power / tl.sum(power, 1)[:, None], mask=kept)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        softmax_rows[(triton.cdiv(rows, 2),)](
            x, y, rows, columns, ROWS=2, BLOCK=triton.next_power_of_2(columns), num_warps=16
        )
        return y
