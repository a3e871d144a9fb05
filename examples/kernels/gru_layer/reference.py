import torch
import torch.nn as nn


class Model(nn.Module):
    """A GRU's cell over a short sequence, the last state as the result."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.cell = nn.GRUCell(inputs, hidden)

    def forward(self, x):
        h = torch.zeros(x.shape[0], self.cell.hidden_size, dtype=x.dtype)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return h


def get_inputs():
    return [torch.randn(16, 24, 64)]


def get_init_inputs():
    return [64, 64]
