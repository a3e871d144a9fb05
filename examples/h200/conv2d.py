"""AlexNet's first convolution, as in the published work: 100 images of 3 x 224 x 224."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=11, stride=4, padding=2)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(100, 3, 224, 224)]


def get_init_inputs():
    return [3, 96]
