import ctypes

import torch
from torch import nn

from kb.native import load_cpp

LIB = load_cpp(
    r"""
extern "C" void run(const float *x, float *a, float *b, long count) {
  for (long i = 0; i < count; i++) {
    float v = x[i];
    a[i] = v < 0 ? -v : v;
    b[i] = v < 0 ? 0 : v;
  }
}
"""
)


class ModelNew(nn.Module):
    def forward(self, x):
        a, b = torch.empty_like(x), torch.empty_like(x)
        places = [ctypes.c_void_p(t.data_ptr()) for t in (x, a, b)]
        LIB.run(*places, ctypes.c_long(x.numel()))
        return a, b
