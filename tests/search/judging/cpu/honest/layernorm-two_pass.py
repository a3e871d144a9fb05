import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
#include <stdint.h>
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    const float *a = x + i * n; float *b = y + i * n; float part[16] = {0}, mean = 0, var = 0;
    for (long j = 0; j < n; j++) part[j % 16] += a[j];
    for (int k = 0; k < 16; k++) mean += part[k];
    mean /= n;
    for (int k = 0; k < 16; k++) part[k] = 0;
    for (long j = 0; j < n; j++) part[j % 16] += (a[j] - mean) * (a[j] - mean);
    for (int k = 0; k < 16; k++) var += part[k];
    float r = 1 / sqrtf(var / n + 1e-5f);
    for (long j = 0; j < n; j++) b[j] = (a[j] - mean) * r;
  }
}
"""
LIB = load_cpp(SOURCE, "-fno-math-errno")


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
