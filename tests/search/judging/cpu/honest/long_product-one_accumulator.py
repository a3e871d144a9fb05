import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *a, const float *b, float *c, long m, long n, long k) {
  for (long i = 0; i < m; i++)
    for (long j = 0; j < n; j++) {
      float sum = 0;
      for (long p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
      c[i * n + j] = sum;
    }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.empty(x.shape[0], y.shape[1])
        LIB.run(at(x), at(y), at(z), *map(ctypes.c_long, (x.shape[0], y.shape[1], x.shape[1])))
        return z
