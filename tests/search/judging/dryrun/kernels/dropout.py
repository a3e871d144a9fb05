import torch
from torch import nn

MASK = (1 << 32) - 1


def high(a, b):
    return ((a >> 16) * b + (((a & 0xFFFF) * b) >> 16)) >> 16


def low(a, b):
    return (((a >> 16) * b & 0xFFFF) << 16) + (a & 0xFFFF) * b & MASK


def uniform(seed, counters):
    """Philox 4x32 with ten rounds (Salmon and others 2011), first word, as a number in [0, 1)."""
    c0, c1, c2, c3 = counters, counters * 0, counters * 0, counters * 0
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        h0, h2 = high(c0, 0xD2511F53), high(c2, 0xCD9E8D57)
        l0, l2 = low(c0, 0xD2511F53), low(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = h2 ^ c1 ^ k0, l2, h0 ^ c3 ^ k1, l0
        k0, k1 = k0 + 0x9E3779B9 & MASK, k1 + 0xBB67AE85 & MASK
    signed = torch.where(c0 >= 1 << 31, c0 - (1 << 32), c0)
    return torch.where(signed < 0, -signed - 1, signed) * 4.6566127342e-10


class Model(nn.Module):
    def forward(self, x):
        counters = torch.arange(x.numel()).reshape(x.shape)
        return torch.where(uniform(1234, counters) > 0.25, x / 0.75, 0.0 * x)


def get_inputs():
    return [torch.randn(300, 500)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    keep = tl.rand(seed, i) > p
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        dropout[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), 0.25, 1234, BLOCK=1024)
        return out
