import ctypes

import torch
import torch.nn as nn

from kb.native import load_cpp

SOURCE = r"""
#include <cstdint>
typedef float v16 __attribute__((vector_size(64)));
typedef float v16u __attribute__((vector_size(64), aligned(4)));
typedef int32_t i16 __attribute__((vector_size(64)));
static const i16 BY1 = {16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
static const i16 BY2 = {16, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
static const i16 BY4 = {16, 16, 16, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static const i16 BY8 = {16, 16, 16, 16, 16, 16, 16, 16, 0, 1, 2, 3, 4, 5, 6, 7};
static const i16 LAST = {15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15};

extern "C" void integral(const float* x, float* y, int64_t planes, int64_t rows, int64_t cols) {
  const v16 zero = {};
  #pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = x + (p * rows + r) * cols;
      float* to = y + (p * rows + r) * cols;
      v16 carry = {};
      for (int64_t c = 0; c < cols; c += 16) {
        v16 v = *(const v16u*)(from + c);
        v += __builtin_shuffle(v, zero, BY1);  // prefix sums of the sixteen lanes in four steps
        v += __builtin_shuffle(v, zero, BY2);
        v += __builtin_shuffle(v, zero, BY4);
        v += __builtin_shuffle(v, zero, BY8);
        v += carry;  // the only chain from one vector to the next
        carry = __builtin_shuffle(v, LAST);
        *(v16u*)(to + c) = r ? v + *(const v16u*)(to + c - cols) : v;  // plus the row above, still in L1
      }
    }
}
"""
lib = load_cpp(SOURCE)
lib.integral.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 3


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.integral(x.data_ptr(), y.data_ptr(), *x.shape)
        return y
