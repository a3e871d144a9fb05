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
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def scale(source, target, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM
    for column in range(0, columns, BN):
        target.store([row, column], source.load([row, column]) * 2 + 1)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        source, target = (TensorDescriptor.from_tensor(t, [16, 16]) for t in (x, out))
        scale[(triton.cdiv(x.shape[0], 16),)](source, target, x.shape[1], BM=16, BN=16)
        return out
