import torch
import torch.nn as nn


class Model(nn.Module):
    """Transposed convolution of two by two with stride two: the way up of a U-Net."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, outputs, 2, stride=2)

    def forward(self, x):
        return self.up(x)


def get_inputs():
    return [torch.randn(4, 64, 32, 32)]


def get_init_inputs():
    return [64, 32]
