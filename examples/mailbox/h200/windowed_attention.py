import torch
from torch import nn


class Model(nn.Module):
    """Attention within a sliding window: soft-capped scores, and a sink in each head's softmax.

    Eight heads of queries share one head of keys and values.
    """

    def __init__(self, heads: int, shared: int, width: int, window: int, cap: float) -> None:
        super().__init__()
        self.heads = heads
        self.shared = shared
        self.window = window
        self.cap = cap
        self.scale = width**-0.5
        self.sink = nn.Parameter(torch.randn(heads))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        k = k.repeat_interleave(self.heads // self.shared, dim=1)
        v = v.repeat_interleave(self.heads // self.shared, dim=1)
        scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        scores = self.cap * torch.tanh(scores / self.cap)
        place = torch.arange(q.shape[2], device=q.device)
        ahead = place[:, None] - place[None, :]
        scores = scores.masked_fill((ahead < 0) | (ahead >= self.window), float("-inf"))
        sink = self.sink.view(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], 1)
        weights = torch.softmax(torch.cat([scores, sink], dim=-1), dim=-1)[..., :-1]
        return torch.matmul(weights, v)


def get_inputs():
    return [
        torch.randn(2, 16, 2048, 64),
        torch.randn(2, 2, 2048, 64),
        torch.randn(2, 2, 2048, 64),
    ]


def get_init_inputs():
    return [16, 2, 64, 256, 30.0]
