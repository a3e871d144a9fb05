import torch
from torch import nn

BATCH, LENGTH, CHANNELS, TAPS, APART = 8, 4096, 512, 4, 8


class Model(nn.Module):
    """A causal dilated convolution over time, as a sum of shifted products, with a tanh-sigmoid gate and a residual."""

    def __init__(self, channels: int, taps: int, apart: int) -> None:
        super().__init__()
        self.apart = apart
        size = (taps * channels) ** -0.5
        self.taps = nn.Parameter((torch.randn(taps, channels, 2 * channels) * size).bfloat16())
        self.bias = nn.Parameter(torch.randn(2 * channels).bfloat16())

    def forward(self, x):
        length, reach = x.shape[1], self.apart * (self.taps.shape[0] - 1)
        padded = torch.nn.functional.pad(x, (0, 0, reach, 0))
        made = self.bias.float()
        for place, tap in enumerate(self.taps):
            made = made + padded[:, place * self.apart : place * self.apart + length] @ tap
        value, gate = made.chunk(2, dim=-1)
        return (x.float() + torch.tanh(value) * torch.sigmoid(gate)).to(x.dtype)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, CHANNELS).bfloat16()]


def get_init_inputs():
    return [CHANNELS, TAPS, APART]
