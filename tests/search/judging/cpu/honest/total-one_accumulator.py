import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, float *y, long n) {
  float sum = 0;
  for (long i = 0; i < n; i++) sum += x[i];
  y[0] = sum;
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(())
        LIB.run(at(x), at(y), ctypes.c_long(x.numel()))
        return y
