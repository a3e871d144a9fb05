import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=1)


def get_inputs():
    return [torch.rand(128, 4000)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def cumsum(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    before = 0.0
    for start in range(0, columns, BLOCK):
        j = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + j, mask=j < columns, other=0.0)
        tl.store(out + row * columns + j, tl.cumsum(v, axis=0) + before, mask=j < columns)
        before += tl.sum(v, axis=0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        cumsum[(x.shape[0],)](x, out, x.shape[1], BLOCK=256)
        return out
