import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sum(x, dim=1, keepdim=True)


def get_inputs():
    return [torch.rand(512, 2000)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def row_sum(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, columns, BLOCK, num_stages=2):
        j = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + j, mask=j < columns, other=0.0)
    tl.store(out + row, tl.sum(total))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty((x.shape[0], 1), device=x.device, dtype=x.dtype)
        row_sum[(x.shape[0],)](x, out, x.shape[1], BLOCK=512)
        return out
