import torch
import torch.nn as nn


class Model(nn.Module):
    """Squeeze and excitation: each channel scaled by a small network of all channels' means."""

    def __init__(self, channels, squeezed):
        super().__init__()
        self.down = nn.Linear(channels, squeezed)
        self.up = nn.Linear(squeezed, channels)

    def forward(self, x):
        gate = torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3))))))
        return x * gate[:, :, None, None]


def get_inputs():
    return [torch.randn(16, 128, 28, 28)]


def get_init_inputs():
    return [128, 16]
