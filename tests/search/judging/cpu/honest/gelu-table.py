import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
#include <vector>
// Cubic interpolation in a table of the normal distribution.
static std::vector<float> table;
extern "C" void make() {
  for (int k = -1; k < 2050; k++) table.push_back((float)(0.5 * erfc(-(-8 + k / 128.0) * 0.70710678118654752)));
}
extern "C" void run(const float *x, float *y, long n) {
  for (long i = 0; i < n; i++) {
    float v = x[i];
    if (v >= 8) { y[i] = v; continue; }
    if (v <= -4) { y[i] = 0.5f * v * erfcf(-v * 0.70710678f); continue; }
    float place = (v + 8) * 128, whole = floorf(place), t = place - whole;
    const float *p = &table[(int)whole];
    float m0 = (p[2] - p[0]) / 2, m1 = (p[3] - p[1]) / 2, d = p[2] - p[1];
    y[i] = v * (p[1] + t * (m0 + t * (3 * d - 2 * m0 - m1 + t * (m0 + m1 - 2 * d))));
  }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


LIB.make()


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape)
        LIB.run(at(x), at(y), ctypes.c_long(x.numel()))
        return y
