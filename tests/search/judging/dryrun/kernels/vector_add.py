import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


N = 1_000_003


def get_inputs():
    return [torch.randn(N), torch.randn(N)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    tl.store(out + i, tl.load(x + i, mask=keep) + tl.load(y + i, mask=keep), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x, y):
        assert x.is_cuda
        out = torch.empty_like(x)
        n = x.numel()
        add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        return out
