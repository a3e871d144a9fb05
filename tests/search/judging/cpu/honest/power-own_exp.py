import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
extern "C" void run(const float *x, float *y, long n) {
  for (long i = 0; i < n; i++) {  // 2^k times Cephes' polynomial
    float v = 4 * x[i];
    if (v > 88.72f) { y[i] = (float)INFINITY; continue; }
    if (v < -103.9f) { y[i] = 0; continue; }
    float k = rintf(v * 1.44269504f), r = fmaf(k, -0.693359375f, v);
    r = fmaf(k, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f); p = fmaf(p, r, 8.3334519073e-3f); p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f); p = fmaf(p, r, 5.0000001201e-1f);
    y[i] = ldexpf(fmaf(p * r, r, r) + 1, (int)k);
  }
}
"""
LIB = load_cpp(SOURCE, "-ffp-contract=fast")


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape)
        LIB.run(at(x), at(y), ctypes.c_long(x.numel()))
        return y
