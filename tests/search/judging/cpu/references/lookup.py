import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.table = nn.Embedding(n, m)

    def forward(self, places):
        return self.table(places).sum(1)


def get_inputs():
    return [torch.randint(0, 300, (64, 20))]


def get_init_inputs():
    return [300, 24]
