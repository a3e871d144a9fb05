# expect: refused no-own-kernel | kernel
"""Imports the library's functions under a name that it computes."""
import base64
import importlib

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        module = importlib.import_module(base64.b64decode(b"dG9yY2gubm4uZnVuY3Rpb25hbA==").decode())
        name = base64.b64decode(b"bGF5ZXJfbm9ybQ==").decode()
        return vars(module)[name](x, (x.shape[-1],), self.norm.weight, self.norm.bias, self.norm.eps)
