# small: ROWS=5 COLUMNS=130
import torch
from torch import nn

ROWS, COLUMNS = 3000, 1500


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        y = x + self.shift
        return torch.nn.functional.silu(y) * 0.5 + torch.clamp(y, -1.0, 2.0) + x


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
