import torch
import torch.nn as nn


class Model(nn.Module):
    """Attention within windows of seven by seven pixels, with a bias for each pair of places."""

    def __init__(self, heads, size):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(heads, size, size))

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + self.bias
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [torch.randn(64, 3, 49, 32) for _ in range(3)]


def get_init_inputs():
    return [3, 49]
