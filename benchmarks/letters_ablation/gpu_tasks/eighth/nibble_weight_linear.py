import torch
from torch import nn

ROWS, INNER, OUTER, GROUP = 2048, 4096, 8192, 128


class Model(nn.Module):
    """A linear layer and a GELU, with weights of four bits, two to a byte, and a scale and zero for each group."""

    def __init__(self, inner: int, outer: int, group: int) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randint(0, 256, (outer, inner // 2), dtype=torch.uint8))
        scale = (torch.rand(outer, inner // group, 1) + 0.5) / (5.0 * inner**0.5)
        self.scale = nn.Parameter(scale.bfloat16())
        self.zero = nn.Parameter((torch.rand(outer, inner // group, 1) * 2.0 + 6.5).bfloat16())
        self.bias = nn.Parameter(torch.randn(outer).bfloat16())

    def forward(self, x):
        codes = torch.stack([self.codes & 15, self.codes >> 4], dim=-1)
        grouped = codes.view(self.scale.shape[0], self.scale.shape[1], -1).to(x.dtype)
        weight = ((grouped - self.zero) * self.scale).flatten(1)
        return torch.nn.functional.gelu(x @ weight.T + self.bias, approximate="tanh")


def get_inputs():
    return [torch.randn(ROWS, INNER).bfloat16()]


def get_init_inputs():
    return [INNER, OUTER, GROUP]
