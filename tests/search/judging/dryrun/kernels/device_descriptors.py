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
    source = tl.make_tensor_descriptor(
        x, shape=[rows, columns], strides=[columns, 1], block_shape=[BM, BN]
    )
    target = tl.make_tensor_descriptor(
        out, shape=[rows, columns], strides=[columns, 1], block_shape=[BM, BN]
    )
    row = tl.program_id(0) * BM
    for column in range(0, columns, BN):
        target.store([row, column], source.load([row, column]) * 2 + 1)


class ModelNew(nn.Module):
    def forward(self, x):
        def workspace(size: int, alignment: int, stream: int | None):
            return torch.empty(size, device="cuda", dtype=torch.int8)

        triton.set_allocator(workspace)
        out = torch.empty_like(x)
        scale[(triton.cdiv(x.shape[0], 16),)](x, out, x.shape[0], x.shape[1], BM=16, BN=16)
        return out
