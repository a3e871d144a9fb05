import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
#include <stdint.h>
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    float part[8] = {0}; float s = 0;
    for (long j = n - 1; j >= 0; j--) part[j % 8] += x[i * n + j];
    for (int k = 0; k < 8; k++) s += part[k];
    y[i] = s;
  }
}
"""
LIB = load_cpp(SOURCE, "")


class ModelNew(nn.Module):
    def forward(self, x):
        m, n = x.shape
        y = torch.empty(m)
        LIB.run(
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(y.data_ptr()),
            ctypes.c_long(m),
            ctypes.c_long(n),
        )
        return y
