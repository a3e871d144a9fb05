# expect: wrong|crashed|refused forged-report | .
"""Overwrites every tensor that its callers hold with zeros, expected answers included."""
import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        frame = sys._getframe(1)
        while frame is not None:
            for value in list(frame.f_locals.values()):
                if isinstance(value, torch.Tensor) and value.shape == x.shape and value is not x:
                    value.zero_()
            frame = frame.f_back
        return torch.zeros_like(x)
