import torch
from torch import nn

BATCH, LENGTH, WIDTH, INNER = 32, 1000, 512, 1024


class Model(nn.Module):
    """A feed-forward block one half of which gates the other, after a learnt causal mixing of the places."""

    def __init__(self, length: int, width: int, inner: int) -> None:
        super().__init__()
        self.enter = nn.Parameter((torch.randn(width, 2 * inner) * 2.0 / width**0.5).bfloat16())
        self.mix = nn.Parameter((torch.randn(length, length) / length**0.5).bfloat16())
        self.shift = nn.Parameter(torch.ones(length, 1))
        self.leave = nn.Parameter((torch.randn(inner, width) / inner**0.5).bfloat16())

    def forward(self, x):
        value, gate = torch.nn.functional.gelu(x @ self.enter).chunk(2, dim=-1)
        gate = torch.nn.functional.layer_norm(gate.float(), gate.shape[-1:]).to(x.dtype)
        gate = (self.mix.tril() @ gate).float() + self.shift
        return x + (value * gate.to(x.dtype)) @ self.leave


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH).bfloat16()]


def get_init_inputs():
    return [LENGTH, WIDTH, INNER]
