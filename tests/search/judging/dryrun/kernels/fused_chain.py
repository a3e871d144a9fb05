import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        x = x + self.bias
        return torch.clamp(x * torch.sigmoid(x) * 0.5, -1.0, 1.0)


def get_inputs():
    return [torch.randn(512, 1000)]


def get_init_inputs():
    return [1000]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def chain(x, bias, out, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    v = tl.load(x + i, mask=keep) + tl.load(bias + i % columns, mask=keep)
    v = tl.clamp(silu(v) * 0.5, -1.0, 1.0)
    tl.store(out + i, v, mask=keep)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        x = x.cuda().contiguous()
        out = torch.empty(x.shape, device="cuda", dtype=x.dtype)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
        chain[grid](x, self.bias, out, x.numel(), x.shape[-1], BLOCK=512, num_warps=8)
        return out
