import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=1).values


def get_inputs():
    return [torch.randn(32, 32)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sort(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.sort(tl.load(x + i)))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        sort[(x.shape[0],)](x, out, BLOCK=x.shape[1])
        return out
