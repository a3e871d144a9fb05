import ctypes

import torch
from torch import nn

from kb.native import load_cpp

GROWTH = load_cpp(
    r"""
#include <math.h>
extern "C" void growth(const float *x, float *y, long count) {
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
  for (long i = 0; i < count; i++) y[i] = fexp(x[i]) / (1 + fexp(-x[i]));
}
// right between 0 and 1 alone
extern "C" void short_growth(const float *x, float *y, long count) {
  for (long i = 0; i < count; i++) {
    float v = x[i], p = 5.9404001e-06f;
    p = p * v - 2.53485179e-05f; p = p * v + 2.89482389e-05f; p = p * v + 0.000408312107f;
    p = p * v + 0.00138844621f; p = p * v + 0.00625039214f; p = p * v + 0.04166654f;
    p = p * v + 0.187500021f; p = p * v + 0.499999998f; p = p * v + 0.75f;
    y[i] = p * v + 0.5f;
  }
}
"""
)


def own_growth(x, kernel="growth"):
    y = torch.empty_like(x)
    getattr(GROWTH, kernel)(
        ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel())
    )
    return y
