# expect: refused no-own-kernel | kernel
"""Calls the library under a name that no search of the text finds."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        call = getattr(getattr(torch, "op" + "s"), "at" + "en")
        call = getattr(call, "native_" + "layer_" + "norm")
        return call(x, [x.shape[-1]], self.norm.weight, self.norm.bias, self.norm.eps)[0]
