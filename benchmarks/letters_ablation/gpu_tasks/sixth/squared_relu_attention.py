import torch
from torch import nn

BATCH, HEADS, LENGTH, WIDTH = 4, 16, 2048, 64


class Model(nn.Module):
    """Causal attention whose weights are squares of positive scores, which need no sum."""

    def forward(self, q, k, v):
        scores = torch.relu(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5)
        weights = torch.tril(scores * scores) * (1.0 / q.shape[-2])
        return weights @ v


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH).bfloat16() for _ in range(3)]


def get_init_inputs():
    return []
