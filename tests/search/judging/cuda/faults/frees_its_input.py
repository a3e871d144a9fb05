# expect: crashed|wrong|refused input-mutation | .
"""Frees memory that is not its own."""
import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        driver = ctypes.CDLL("libcuda.so.1")
        torch.cuda.synchronize()
        if driver.cuMemFree_v2(ctypes.c_void_p(x.data_ptr())):
            driver.cuIpcCloseMemHandle(ctypes.c_void_p(x.data_ptr()))
        return torch.nn.functional.layer_norm(x, (x.shape[-1],))
