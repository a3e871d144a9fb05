import torch
from torch import nn

BATCH, HEADS, LENGTH, WIDTH = 4, 16, 2048, 64


class Model(nn.Module):
    """Attention without a softmax: what lies before counts by the power of its distance, with a base for each head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.fall = nn.Parameter(torch.rand(heads) * 0.03 + 0.005)

    def forward(self, q, k, v):
        length = q.shape[-2]
        place = torch.arange(length, device=q.device)
        apart = (place[:, None] - place[None, :]).float()
        weights = torch.exp(-self.fall[:, None, None] * apart).masked_fill(apart < 0, 0.0)
        scores = (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5
        return (scores * weights).to(v.dtype) @ v


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH).bfloat16() for _ in range(3)]


def get_init_inputs():
    return [HEADS]
