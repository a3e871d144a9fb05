# expect: crashed|wrong | .
"""Resets the device below the framework, for its own process."""
import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}").cudaDeviceReset()
        return torch.nn.functional.layer_norm(x, (x.shape[-1],))
