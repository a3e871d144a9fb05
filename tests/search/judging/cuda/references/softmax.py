# small: ROWS=6 COLUMNS=333
import torch
from torch import nn

ROWS, COLUMNS = 2048, 5000


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
