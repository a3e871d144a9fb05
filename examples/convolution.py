"""A plain 3x3 convolution, as between two blocks of a small residual network."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(4, 64, 56, 56)]


def get_init_inputs():
    return [64, 64]
