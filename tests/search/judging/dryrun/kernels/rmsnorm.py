import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain


def get_inputs():
    return [torch.randn(4, 64, 1024)]


def get_init_inputs():
    return [1024]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rmsnorm(x, gain, out, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.arange(0, BLOCK)[None, :]
    keep = (i < rows) & (j < columns)
    v = tl.load(x + i * columns + j, mask=keep, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(v * v, axis=1, keep_dims=True) / columns + 1e-6)
    tl.store(out + i * columns + j, v * scale * tl.load(gain + j, mask=j < columns), mask=keep)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))

    def forward(self, x):
        out = torch.empty_like(x)
        columns = x.shape[-1]
        rows = x.numel() // columns
        rmsnorm[(triton.cdiv(rows, 4),)](
            x, self.gain, out, rows, columns, ROWS=4, BLOCK=triton.next_power_of_2(columns)
        )
        return out
