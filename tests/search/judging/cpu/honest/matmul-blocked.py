import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
#include <stdint.h>
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) for (long j = 0; j < m; j++) y[i * m + j] = 0;
  for (long k0 = 0; k0 < n; k0 += 32)
    for (long i = 0; i < m; i++)
      for (long j = 0; j < m; j++) {
        float s = 0;
        for (long k = k0; k < n && k < k0 + 32; k++) s += x[i * n + k] * x[j * n + k];
        y[i * m + j] += s;
      }
}
"""
LIB = load_cpp(SOURCE, "-funroll-loops")


class ModelNew(nn.Module):
    def forward(self, x):
        m, n = x.shape
        y = torch.empty(m, m)
        LIB.run(
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(y.data_ptr()),
            ctypes.c_long(m),
            ctypes.c_long(n),
        )
        return y
