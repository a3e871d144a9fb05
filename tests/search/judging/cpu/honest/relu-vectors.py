import ctypes

import torch
from torch import nn

from kb.native import load_cpp

LIB = load_cpp(
    r"""
extern "C" void run(const float *x, float *y, long count) {
  for (long i = 0; i < count; i++) y[i] = x[i] > 0.0f ? x[i] : (x[i] == x[i] ? 0.0f : x[i]);
}
"""
)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.run(
            ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel())
        )
        return y
