import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        wide = torch.get_default_dtype()
        total = x.bfloat16() + y.bfloat16()
        return torch.relu(total * 2).to(wide)


def get_inputs():
    return [torch.randn(100_000).bfloat16(), torch.randn(100_000).bfloat16()]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def chain(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n)
    tl.store(out + i, tl.maximum(total * 2, 0.0).to(tl.float32), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(x.shape, device=x.device, dtype=torch.float32)
        chain[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
