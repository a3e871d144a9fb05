import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, float *mean, float *var, float *most, long m, long n) {
  for (long i = 0; i < m; i++) {
    const float *a = x + i * n; float sum = 0, square = 0, top = a[0];
    for (long j = 0; j < n; j++) { sum += a[j]; top = a[j] > top ? a[j] : top; }
    float middle = sum / n;
    for (long j = 0; j < n; j++) square += (a[j] - middle) * (a[j] - middle);
    mean[i] = middle; var[i] = square / (n - 1); most[i] = top;
  }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, x):
        m, n = x.shape
        found = [torch.empty(m) for _ in range(3)]
        LIB.run(at(x), *map(at, found), ctypes.c_long(m), ctypes.c_long(n))
        return tuple(found)
