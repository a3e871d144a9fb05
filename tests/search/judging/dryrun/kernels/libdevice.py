import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) + torch.erf(x) * torch.log1p(x.abs()) - torch.atan(x)


def get_inputs():
    return [torch.randn(1000, 100)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice
from triton.language.extra.libdevice import atan


@triton.jit
def curve(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    y = libdevice.tanh(v) + tl.erf(v) * libdevice.log1p(tl.abs(v)) - atan(v)
    tl.store(out + i, y, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        curve[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
