import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, const float *y, float *z, long n) {
  for (long i = 0; i < n; i++) z[i] = x[i] * (1 / y[i]);
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty(x.shape)
        LIB.run(at(x), at(y), at(z), ctypes.c_long(x.numel()))
        return z
