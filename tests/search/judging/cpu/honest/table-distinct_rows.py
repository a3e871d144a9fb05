import torch
from torch import nn


class ModelNew(nn.Module):
    """Computes each row that is asked for once, in every call."""

    def __init__(self, rows, width):
        super().__init__()
        self.rows = nn.Embedding(rows, width)
        self.first = nn.Linear(width, 4 * width)
        self.second = nn.Linear(4 * width, width)

    def forward(self, places):
        distinct, where = torch.unique(places, return_inverse=True)
        rows = self.rows.weight[distinct]
        return self.second(torch.relu(self.first(rows)))[where]
