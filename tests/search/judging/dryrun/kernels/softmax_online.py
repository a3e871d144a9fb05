import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand(64, 16384)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    x += tl.program_id(0) * columns
    out += tl.program_id(0) * columns
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        j = start + tl.arange(0, BLOCK)
        v = tl.load(x + j, mask=j < columns, other=-float("inf"))
        higher = tl.maximum(top, v)
        safe = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(top - safe) + tl.exp(v - safe)
        top = higher
    peak = tl.max(top, axis=0)
    whole = tl.sum(total * tl.exp(top - peak), axis=0)
    for start in range(0, columns, BLOCK):
        j = start + tl.arange(0, BLOCK)
        v = tl.load(x + j, mask=j < columns, other=-float("inf"))
        tl.store(out + j, tl.exp(v - peak) / whole, mask=j < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024)
        return out
