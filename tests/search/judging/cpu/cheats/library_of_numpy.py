# expect: refused library-call
# task: matmul library=forbidden
"""Another library than torch, and an own kernel beside it."""

import ctypes

import numpy as np
import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void nothing(float *y, long n) { for (long i = 0; i < n; i++) y[i] += 0; }
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x):
        given = x.numpy()
        y = torch.from_numpy(np.matmul(given, given.T))
        LIB.nothing(at(y), ctypes.c_long(y.numel()))
        return y
