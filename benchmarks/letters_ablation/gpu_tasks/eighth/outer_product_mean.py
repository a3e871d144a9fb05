import torch
from torch import nn

SEQUENCES, LENGTH, WIDTH, HIDDEN, PAIR = 512, 256, 256, 32, 128


class Model(nn.Module):
    """For each pair of columns of an alignment, the mean over sequences of their outer products, mapped to a vector."""

    def __init__(self, width: int, hidden: int, pair: int) -> None:
        super().__init__()
        self.left = nn.Parameter((torch.randn(width, hidden) / width**0.5).bfloat16())
        self.right = nn.Parameter((torch.randn(width, hidden) / width**0.5).bfloat16())
        self.out = nn.Parameter((torch.randn(hidden * hidden, pair) * 4.0 / hidden).bfloat16())

    def forward(self, m):
        sequences, length, width = m.shape
        x = torch.nn.functional.layer_norm(m.float(), (width,)).to(m.dtype)
        a = (x @ self.left).view(sequences, -1)
        b = (x @ self.right).view(sequences, -1)
        outer = (a.T @ b) / sequences
        outer = outer.view(length, -1, length, self.left.shape[1]).transpose(1, 2)
        return outer.reshape(length, length, -1) @ self.out


def get_inputs():
    return [torch.randn(SEQUENCES, LENGTH, WIDTH).bfloat16()]


def get_init_inputs():
    return [WIDTH, HIDDEN, PAIR]
