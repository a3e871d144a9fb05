import ctypes

import torch
from torch import nn

from kb.native import load_cpp

STEPS = load_cpp(
    r"""
extern "C" void steps(const float *x, float *y, long count) {
  for (long i = 0; i < count; i++) y[i] = x[i];
  for (long b = 0; b < count; b += 4096) {
    long end = b + 4096 < count ? b + 4096 : count;
    for (int step = 0; step < 16; step++)
      for (long i = b; i < end; i++) y[i] = y[i] / (1.0f + y[i] * y[i]) + 0.5f * y[i];
  }
}
"""
)


def own_steps(x, y=None):
    y = torch.empty_like(x) if y is None else y
    STEPS.steps(
        ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel())
    )
    return y
