import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand(128, 3000)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + j, mask=j < columns, other=-float("inf"))
    v = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * columns + j, v / tl.sum(v, axis=0), mask=j < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        softmax[(rows,)](x, out, columns, BLOCK=block, num_warps=4 if block < 2048 else 8)
        return out
