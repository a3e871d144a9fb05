import torch
from torch import nn

LENGTH, CHANNELS = 320, 128


class Model(nn.Module):
    """A gated update of each edge (i, j) from the edges (i, k) and (j, k)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm_in, self.norm_out = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.left, self.left_gate = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.right, self.right_gate = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.gate, self.out = nn.Linear(channels, channels), nn.Linear(channels, channels)

    def forward(self, z):
        x = self.norm_in(z)
        a = self.left(x) * torch.sigmoid(self.left_gate(x))
        b = self.right(x) * torch.sigmoid(self.right_gate(x))
        y = torch.einsum("ikc,jkc->ijc", a, b)
        return torch.sigmoid(self.gate(x)) * self.out(self.norm_out(y))


def get_inputs():
    return [torch.randn(LENGTH, LENGTH, CHANNELS)]


def get_init_inputs():
    return [CHANNELS]
