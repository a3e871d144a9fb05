import torch
from torch import nn

BATCH, HEADS, LENGTH, WIDTH = 2, 16, 1024, 64


class Model(nn.Module):
    """Attention whose scores are mixed between the heads, before the softmax and after it."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.before = nn.Parameter(torch.randn(heads, heads) / heads**0.5)
        self.after = nn.Parameter(torch.randn(heads, heads) / heads**0.5)

    def forward(self, q, k, v):
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = torch.einsum("bhij,hg->bgij", scores, self.before)
        weights = torch.softmax(scores, dim=-1)
        weights = torch.einsum("bhij,hg->bgij", weights, self.after)
        return weights @ v


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3)]


def get_init_inputs():
    return [HEADS]
