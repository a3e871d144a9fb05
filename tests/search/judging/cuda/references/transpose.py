# small: ROWS=37 COLUMNS=70
import torch
from torch import nn

ROWS, COLUMNS = 3000, 2500


class Model(nn.Module):
    def forward(self, x):
        return (x.t() * 2).contiguous()


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]
