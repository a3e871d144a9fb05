# expect: wrong | differs
# task: cumprod
"""It stops where a product is small beside the greatest of its row."""

import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    float product = 1, most = 0; long j = 0;
    for (; j < n && fabsf(product) >= 1e-7f * most; j++) { y[i * n + j] = product *= x[i * n + j]; most = fmaxf(most, fabsf(product)); }
    for (; j < n; j++) y[i * n + j] = 0;
  }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x):
        m, n = x.shape
        y = torch.empty(m, n)
        LIB.run(at(x), at(y), ctypes.c_long(m), ctypes.c_long(n))
        return y
