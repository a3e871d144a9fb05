# small: ROWS=9 COLUMNS=130
import torch
from torch import nn

ROWS, COLUMNS = 256, 512


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS) - 0.5]
