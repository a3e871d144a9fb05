import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.bincount(x, minlength=64)[:64].to(torch.float32)


def get_inputs():
    return [torch.randint(0, 64, (50_000,))]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def histogram(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0).to(tl.int32)
    counts = tl.histogram(v, BINS, mask=i < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts.to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros(64, device=x.device)
        histogram[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BINS=64, BLOCK=1024)
        return out
