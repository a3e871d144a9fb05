# small: BATCH=1 INNER=5 OUTER=8 SIDE=9
import torch
from torch import nn

BATCH, INNER, OUTER, SIDE = 8, 32, 64, 56


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(BATCH, INNER, SIDE, SIDE)]


def get_init_inputs():
    return [INNER, OUTER]
