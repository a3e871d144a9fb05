# task: dense packing=forbidden
import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, const float *w, const float *b, float *y, long m, long n, long k) {
  for (long i = 0; i < m; i++) {
    float *row = y + i * n;
    for (long j = 0; j < n; j++) row[j] = b[j];
    for (long p = 0; p < k; p++)
      for (long j = 0; j < n; j++) row[j] += x[i * k + p] * w[p * n + j];
  }
}
"""
LIB = load_cpp(SOURCE, "-ffp-contract=fast")


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.linear = nn.Linear(n, m)

    def forward(self, x):
        turned = self.linear.weight.t().contiguous()
        (m, k), n = x.shape, turned.shape[1]
        y = torch.empty(m, n)
        LIB.run(at(x), at(turned), at(self.linear.bias), at(y), *map(ctypes.c_long, (m, n, k)))
        return y
