import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
#include <math.h>
#include <vector>
extern "C" void run(const float *q, const float *k, const float *v, float *y, long m, long n, long d) {
  std::vector<float> sum(d);
  for (long i = 0; i < m; i++) {
    float most = -INFINITY, total = 0;
    for (float &s : sum) s = 0;
    for (long j = 0; j < n; j++) {
      float score = 0;
      for (long p = 0; p < d; p++) score += q[i * d + p] * k[j * d + p];
      score /= sqrtf((float)d);
      if (score > most) {
        float shrink = expf(most - score);
        total *= shrink;
        for (float &s : sum) s *= shrink;
        most = score;
      }
      float weight = expf(score - most);
      total += weight;
      for (long p = 0; p < d; p++) sum[p] += weight * v[j * d + p];
    }
    for (long p = 0; p < d; p++) y[i * d + p] = sum[p] / total;
  }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        y = torch.empty(q.shape[0], v.shape[1])
        LIB.run(at(q), at(k), at(v), at(y), *map(ctypes.c_long, (q.shape[0], k.shape[0], q.shape[1])))
        return y
