import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, const float *w, const float *b, float *y, long m, long n, long k) {
  for (long i = 0; i < m; i++)
    for (long j = 0; j < n; j++) {
      float sum = b[j];
      for (long p = 0; p < k; p++) sum += x[i * k + p] * w[j * k + p];
      y[i * n + j] = sum;
    }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.linear = nn.Linear(n, m)

    def forward(self, x):
        (m, k), n = x.shape, self.linear.weight.shape[0]
        y = torch.empty(m, n)
        LIB.run(at(x), at(self.linear.weight), at(self.linear.bias), at(y), *map(ctypes.c_long, (m, n, k)))
        return y
