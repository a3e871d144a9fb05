# expect: wrong | differs
# task: softmax
"""A polynomial of degree three where float32 needs six."""

import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
static inline float power(float v) {
  if (v < -87) return 0;
  float k = rintf(v * 1.44269504f), r = v * 1.44269504f - k;
  return ldexpf(1.0f + r * (0.69583f + r * (0.22606f + r * 0.07944f)), (int)k);
}
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    const float *a = x + i * n; float most = a[0], sum = 0;
    for (long j = 1; j < n; j++) most = a[j] > most ? a[j] : most;
    for (long j = 0; j < n; j++) sum += y[i * n + j] = power(a[j] - most);
    for (long j = 0; j < n; j++) y[i * n + j] /= sum;
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
