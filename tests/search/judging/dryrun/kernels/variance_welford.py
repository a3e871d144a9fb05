import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.var(x, dim=1, unbiased=False)


def get_inputs():
    return [torch.rand(256, 900)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def join(mean, square, count, mean_2, square_2, count_2):
    total = count + count_2
    delta = mean_2 - mean
    part = tl.where(total == 0.0, 0.0, count_2 / total)
    return mean + delta * part, square + square_2 + delta * delta * count * part, total


@triton.jit
def variance(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + j, mask=j < columns, other=0.0)
    count = (j < columns).to(tl.float32)
    _, square, total = tl.reduce((v, tl.zeros_like(v), count), 0, join)
    tl.store(out + row, square / total)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        variance[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
