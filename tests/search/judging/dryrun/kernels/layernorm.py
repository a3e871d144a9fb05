import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(256, 1536)]


def get_init_inputs():
    return [1536]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layernorm(x, weight, bias, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    keep = j < columns
    v = tl.load(x + row * columns + j, mask=keep, other=0.0)
    mean = tl.sum(v, axis=0) / columns
    centred = tl.where(keep, v - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    scaled = centred * tl.rsqrt(variance + eps)
    w = tl.load(weight + j, mask=keep, other=0.0)
    b = tl.load(bias + j, mask=keep, other=0.0)
    tl.store(out + row * columns + j, scaled * w + b, mask=keep)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        out = torch.empty_like(x)
        columns = x.shape[-1]
        layernorm[(x.numel() // columns,)](
            x,
            self.norm.weight,
            self.norm.bias,
            out,
            columns,
            self.norm.eps,
            BLOCK=triton.next_power_of_2(columns),
        )
        return out
