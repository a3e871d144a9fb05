import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
#include <stdint.h>
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    const float *a = x + i * n; float *b = y + i * n;
    float tops[8], sums[8] = {}, top = -INFINITY, s = 0;
    for (float &t : tops) t = -INFINITY;
    for (long j = 0; j < n; j++) {  // eight sums side by side: a single one loses two digits on long rows
      float &t = tops[j % 8], &sum = sums[j % 8];
      if (a[j] > t) { sum *= expf(t - a[j]); t = a[j]; }
      sum += expf(a[j] - t);
    }
    for (float t : tops) top = fmaxf(top, t);
    for (int k = 0; k < 8; k++) s += sums[k] * expf(tops[k] - top);
    for (long j = 0; j < n; j++) b[j] = expf(a[j] - top) / s;
  }
}
"""
LIB = load_cpp(SOURCE, "")


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
