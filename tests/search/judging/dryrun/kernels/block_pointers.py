import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2 + 1


def get_inputs():
    return [torch.randn(300, 256)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM
    source = tl.make_block_ptr(x, (rows, columns), (columns, 1), (row, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (rows, columns), (columns, 1), (row, 0), (BM, BN), (1, 0))
    for _ in range(tl.cdiv(columns, BN)):
        v = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, v * 2 + 1, boundary_check=(0, 1))
        source = tl.advance(source, (0, BN))
        target = tl.advance(target, (0, BN))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        scale[(triton.cdiv(x.shape[0], 32),)](x, out, x.shape[0], x.shape[1], BM=32, BN=32)
        return out
