# expect: wrong | differs
# task: power
"""What is small beside the greatest of its row is zero."""

import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    const float *a = x + i * n; float most = a[0];
    for (long j = 1; j < n; j++) most = a[j] > most ? a[j] : most;
    for (long j = 0; j < n; j++) y[i * n + j] = a[j] < most - 3.5f ? 0 : expf(4 * a[j]);
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
