import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    const float *a = x + i * n; float mean = 0, var = 0;
    for (long j = 0; j < n; j++) mean += a[j];
    mean /= n;
    for (long j = 0; j < n; j++) var += (a[j] - mean) * (a[j] - mean);
    float r = 1 / sqrtf(var / n + 1e-5f);
    for (long j = 0; j < n; j++) y[i * n + j] = (a[j] - mean) * r;
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
