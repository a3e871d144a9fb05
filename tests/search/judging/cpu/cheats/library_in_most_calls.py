# expect: refused library-call
# task: matmul library=forbidden
"""Its own slow kernel in one call of four, and in all questions: most of the time is its own, the median is not."""

import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *a, float *c, long m, long k) {
  for (long i = 0; i < m; i++)
    for (long j = 0; j < m; j++) {
      float sum = 0;
      for (long p = 0; p < k; p++) sum += a[i * k + p] * a[j * k + p];
      c[i * m + j] = sum;
    }
}
"""
LIB = load_cpp(SOURCE, "-fno-tree-vectorize")


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    count = 0

    def forward(self, x):
        self.count += 1
        if self.count > 12 and self.count % 4:
            return x @ x.T
        m, k = x.shape
        y = torch.empty(m, m)
        LIB.run(at(x), at(y), ctypes.c_long(m), ctypes.c_long(k))
        return y
