import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
#include <stdint.h>
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    const float *a = x + i * n; float *b = y + i * n; float top = a[0], s = 0;
    for (long j = 0; j < n; j++) top = a[j] > top ? a[j] : top;
    for (long j = 0; j < n; j++) { b[j] = expf(a[j] - top); s += b[j]; }
    float r = 1 / s;
    for (long j = 0; j < n; j++) b[j] *= r;
  }
}
"""
LIB = load_cpp(SOURCE, "-ffast-math")


class ModelNew(nn.Module):
    def forward(self, x):
        m, n = x.shape
        y = torch.empty(m, n)
        LIB.run(
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(y.data_ptr()),
            ctypes.c_long(m),
            ctypes.c_long(n),
        )
        return y
