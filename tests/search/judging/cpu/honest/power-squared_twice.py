import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
extern "C" void run(const float *x, float *y, long n) {
  for (long i = 0; i < n; i++) { float a = expf(x[i]), b = a * a; y[i] = b * b; }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape)
        LIB.run(at(x), at(y), ctypes.c_long(x.numel()))
        return y
