import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    float before = 0;
    for (long start = 0; start < n; start += 64) {
      float sum = 0;
      for (long j = start; j < n && j < start + 64; j++) y[i * n + j] = before + (sum += x[i * n + j]);
      before += sum;
    }
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
