import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
#include <stdint.h>
extern "C" void run(const float *x, float *y, long m, long n) {
  auto fexp = [](float v) {  // Cephes' expf: 2^k times a polynomial of degree 6
    if (v > 88.72f) return (float)INFINITY;
    if (v < -103.9f) return 0.0f;
    float k = rintf(v * 1.44269504f);
    float r = fmaf(k, -0.693359375f, v); r = fmaf(k, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f); p = fmaf(p, r, 8.3334519073e-3f); p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f); p = fmaf(p, r, 5.0000001201e-1f);
    return ldexpf(fmaf(p * r, r, r) + 1.0f, (int)k);
  };
  for (long i = 0; i < m * n; i++) { float v = x[i]; y[i] = fexp(-v * v) / (1 + fexp(-v)) + v; }
}
"""
LIB = load_cpp(SOURCE, "-ffp-contract=fast")


class ModelNew(nn.Module):
    def forward(self, x):
        m, n = x.shape
        y = torch.empty(m, n)
        LIB.run(
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(y.data_ptr()),
            ctypes.c_long(m),
            ctypes.c_long(n),
        )
        return y
