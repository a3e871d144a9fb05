"""The first block of AlexNet: Conv2D + ReLU + MaxPool, the task of the published work."""

import torch
import torch.nn as nn

# The published batch on a GPU; a batch that a CPU core does in tens of milliseconds elsewhere.
batch_size = 100 if torch.cuda.is_available() else 4
in_channels, out_channels = 3, 96
height = width = 224


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=11, stride=4, padding=2)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2)

    def forward(self, x):
        return self.pool(self.relu(self.conv(x)))


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels]
