import torch
import torch.nn as nn


class Model(nn.Module):
    """Linear attention with a decay a head, written as a product of a masked matrix of scores."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, q, k, v):
        moments = torch.arange(q.shape[-2])
        apart = (moments[:, None] - moments[None, :]).to(q.dtype)
        decay = 1 - 2.0 ** (-5 - torch.arange(self.heads, dtype=q.dtype))
        kept = torch.where(apart >= 0, decay[:, None, None] ** apart.clamp(min=0), 0.0)
        return (q @ k.transpose(-2, -1) * kept) @ v


def get_inputs():
    return [torch.randn(2, 4, 512, 32) for _ in range(3)]


def get_init_inputs():
    return [4]
