# small: ROWS=40 INNER=70 COLUMNS=50
import torch
from torch import nn

ROWS, INNER, COLUMNS = 2048, 2048, 2048


class Model(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.rand(ROWS, INNER)]


def get_init_inputs():
    return [INNER, COLUMNS]
