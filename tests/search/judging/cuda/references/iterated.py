# small: ROWS=3 COLUMNS=100
import torch
from torch import nn

ROWS, COLUMNS = 2048, 2048


class Model(nn.Module):
    def forward(self, x):
        y = x
        for _ in range(24):
            y = torch.sin(y) * 0.9 + x * 0.1
        return y


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
