import torch
from torch import nn

ROWS, WIDTH, EXPERTS = 32768, 2048, 256


class Model(nn.Module):
    """The probability of each expert for each row, by scores that the row's own temperature divides."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.experts = nn.Parameter((torch.randn(experts, width) / width**0.5).bfloat16())
        self.bias = nn.Parameter(torch.randn(experts).bfloat16())

    def forward(self, x):
        scores = (x @ self.experts.T + self.bias).float()
        heat = 1.0 + x.float().square().mean(-1, keepdim=True).sqrt()
        return torch.softmax(scores / heat, -1).to(x.dtype)


def get_inputs():
    return [torch.randn(ROWS, WIDTH).bfloat16()]


def get_init_inputs():
    return [WIDTH, EXPERTS]
