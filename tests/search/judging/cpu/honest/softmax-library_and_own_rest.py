import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(float *y, const float *sums, long m, long n) {
  for (long i = 0; i < m; i++)
    for (long j = 0; j < n; j++) y[i * n + j] /= sums[i];
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.exp(x - x.amax(-1, keepdim=True))
        sums = y.sum(-1)
        LIB.run(at(y), at(sums), *map(ctypes.c_long, x.shape))
        return y
