# task: rectified special_values=true
import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, float *y, long n) {
  for (long i = 0; i < n; i++) y[i] = (x[i] < 0 ? 0 : x[i]) + x[i];
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape)
        LIB.run(at(x), at(y), ctypes.c_long(x.numel()))
        return y
