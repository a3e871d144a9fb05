import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, float *y, long m, long n) {
  for (long i = 0; i < m; i++)
    for (long j = 0; j < n; j++) y[j * m + i] = x[i * n + j] * x[i * n + j] + 1;
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x):
        m, n = x.shape
        y = torch.empty(n, m)
        LIB.run(at(x), at(y), ctypes.c_long(m), ctypes.c_long(n))
        return y
