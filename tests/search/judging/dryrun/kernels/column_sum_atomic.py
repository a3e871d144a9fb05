import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=0)


def get_inputs():
    return [torch.rand(1024, 300)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def column_sum(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    keep = (i < rows) & (j[None, :] < columns)
    part = tl.sum(tl.load(x + i * columns + j[None, :], mask=keep, other=0.0), axis=0)
    tl.atomic_add(out + j, part, mask=j < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.zeros(columns, device=x.device)
        grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 64))
        column_sum[grid](x, out, rows, columns, BM=64, BN=64)
        return out
