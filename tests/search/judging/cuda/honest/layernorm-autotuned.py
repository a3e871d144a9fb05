# interpreter: no, its configurations are timed on a device
import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[triton.Config({"ROWS": rows}, num_warps=warps) for rows in (1, 2) for warps in (2, 4, 8)],
    key=["columns"],
)
@triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["columns"])})
@triton.jit
def norm_rows(x, weight, bias, y, rows, columns, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    kept = (row < rows) & (at < columns)
    value = tl.load(x + row * columns + at, mask=kept, other=0.0)
    mean = tl.sum(value, 1) / columns
    gap = tl.where(kept, value - mean[:, None], 0.0)
    scale = 1 / tl.sqrt(tl.sum(gap * gap, 1) / columns + eps)
    gain = tl.load(weight + at, mask=at < columns)
    shift = tl.load(bias + at, mask=at < columns)
    tl.store(y + row * columns + at, gap * scale[:, None] * gain + shift, mask=kept)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        norm_rows[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](
            x, self.norm.weight, self.norm.bias, y, rows, columns, self.norm.eps
        )
        return y
