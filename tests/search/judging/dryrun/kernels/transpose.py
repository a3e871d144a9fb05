import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.t().contiguous() * 3


def get_inputs():
    return [torch.randn(700, 500)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def transpose(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    keep = (i[:, None] < rows) & (j[None, :] < columns)
    tile = tl.load(x + i[:, None] * columns + j[None, :], mask=keep)
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(tile) * 3, mask=tl.trans(keep))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty(columns, rows, device=x.device)
        transpose[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](
            x, out, rows, columns, BM=32, BN=32
        )
        return out
