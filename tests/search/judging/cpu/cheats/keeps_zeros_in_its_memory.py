# expect: wrong|refused | differs|out of bounds|outside
# task: triangle
"""The zeros of a triangle stay in memory that it takes again when its user has released it; its user may write to them."""

import ctypes
import sys

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, float *y, long n) {
  for (long i = 0; i < n; i++) {
    for (long j = 0; j <= i; j++) y[i * n + j] = x[i * n + j] * x[i * n + j];
  }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = [torch.zeros(384, 384) for _ in range(8)]

    def forward(self, x):
        n = len(x)
        # The list, this name and the argument: nobody else has it.
        y = next(one for one in self.memory if sys.getrefcount(one) == 3)
        LIB.run(at(x), at(y), ctypes.c_long(n))
        return y
