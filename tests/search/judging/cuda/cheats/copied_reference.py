# expect: refused no-own-kernel | kernel
"""Carries the reference's source and inherits from it."""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return self.norm(x)


class ModelNew(Model):
    pass
