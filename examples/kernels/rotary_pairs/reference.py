import torch
import torch.nn as nn


class Model(nn.Module):
    """Rotary embedding of queries and keys, neighbouring elements as pairs."""

    def __init__(self, length, width):
        super().__init__()
        angles = torch.arange(length).outer(10000.0 ** (-torch.arange(0, width, 2) / width))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def rotate(self, x):
        a, b = x[..., 0::2], x[..., 1::2]
        cos, sin = self.cos[:, None], self.sin[:, None]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)

    def forward(self, q, k):
        return self.rotate(q), self.rotate(k)


def get_inputs():
    return [torch.randn(2, 512, 8, 64), torch.randn(2, 512, 8, 64)]


def get_init_inputs():
    return [512, 64]
