# small: ROWS=2 COLUMNS=700
import torch
from torch import nn

ROWS, COLUMNS = 512, 8000


class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, -1)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]
