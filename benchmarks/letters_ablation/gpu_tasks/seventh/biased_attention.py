import torch
from torch import nn

BATCH, HEADS, LENGTH, WIDTH = 2, 16, 2048, 64


class Model(nn.Module):
    """Causal attention whose scores fall off with distance, by a slope that each head has."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes = nn.Parameter(torch.rand(heads) * 0.1)

    def forward(self, q, k, v):
        length = q.shape[-2]
        place = torch.arange(length, device=q.device)
        apart = place[:, None] - place[None, :]
        scores = (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5
        scores = scores - self.slopes[:, None, None] * apart
        scores = scores.masked_fill(apart < 0, float("-inf"))
        return torch.softmax(scores, -1).to(v.dtype) @ v


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH).bfloat16() for _ in range(3)]


def get_init_inputs():
    return [HEADS]
