import torch
from torch import nn

BATCH, HEADS, LENGTH, WIDTH = 4, 8, 2048, 64


class Model(nn.Module):
    """Causal attention with a positive feature map in place of the softmax."""

    def forward(self, q, k, v):
        q = torch.nn.functional.elu(q) + 1
        k = torch.nn.functional.elu(k) + 1
        scores = torch.tril(q @ k.transpose(-1, -2))
        return scores @ v / (scores.sum(-1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3)]


def get_init_inputs():
    return []
