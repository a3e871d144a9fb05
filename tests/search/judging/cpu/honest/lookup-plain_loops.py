import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const long *places, const float *table, float *y, long m, long n, long d) {
  for (long i = 0; i < m; i++) {
    for (long p = 0; p < d; p++) y[i * d + p] = 0;
    for (long j = 0; j < n; j++)
      for (long p = 0; p < d; p++) y[i * d + p] += table[places[i * n + j] * d + p];
  }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.table = nn.Embedding(n, m)

    def forward(self, places):
        (m, n), d = places.shape, self.table.weight.shape[1]
        y = torch.empty(m, d)
        LIB.run(at(places), at(self.table.weight), at(y), *map(ctypes.c_long, (m, n, d)))
        return y
