# expect: wrong | differs
# task: ratio
"""Ratios that are small beside the greatest are zero."""

import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
extern "C" void run(const float *x, const float *y, float *z, long n) {
  for (long i = 0; i < n; i++) z[i] = fabsf(x[i]) < 0.02f * fabsf(y[i]) ? 0 : x[i] / y[i];
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
