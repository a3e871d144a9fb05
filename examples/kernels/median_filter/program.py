import ctypes

import torch
import torch.nn as nn

from kb.native import load_cpp

SOURCE = r"""
#include <cstdint>
#include <cstring>
typedef float v16 __attribute__((vector_size(64)));
typedef float v16u __attribute__((vector_size(64), aligned(4)));
static inline v16 lo(v16 a, v16 b) { return a < b ? a : b; }
static inline v16 hi(v16 a, v16 b) { return a > b ? a : b; }
static inline v16 mid(v16 a, v16 b, v16 c) { return hi(lo(a, b), lo(hi(a, b), c)); }

extern "C" void median(const float* x, float* y, int64_t planes, int64_t H, int64_t W) {
  #pragma omp parallel
  {
    float least[4096], middle[4096], most[4096];  // a row of sorted columns, with one more on either side
    #pragma omp for schedule(static)
    for (int64_t i = 0; i < planes * H; ++i) {
      const int64_t r = i % H;
      const float* b = x + i * W;
      const float *a = r ? b - W : b, *c = r + 1 < H ? b + W : b;
      for (int64_t j = 0; j < W; j += 16) {  // three rows sorted once, for three pixels each
        const v16 p = *(const v16u*)(a + j), q = *(const v16u*)(b + j), s = *(const v16u*)(c + j);
        *(v16u*)(least + 16 + j) = lo(lo(p, q), s);
        *(v16u*)(middle + 16 + j) = mid(p, q, s);
        *(v16u*)(most + 16 + j) = hi(hi(p, q), s);
      }
      least[15] = least[16], middle[15] = middle[16], most[15] = most[16];
      least[16 + W] = least[15 + W], middle[16 + W] = middle[15 + W], most[16 + W] = most[15 + W];
      for (int64_t j = 0; j < W; j += 16) {
        const float *l = least + 15 + j, *m = middle + 15 + j, *h = most + 15 + j;
        // The median of nine: of the greatest least, the middle middle and the least greatest.
        const v16 bottom = hi(hi(*(v16u*)l, *(v16u*)(l + 1)), *(v16u*)(l + 2));
        const v16 centre = mid(*(v16u*)m, *(v16u*)(m + 1), *(v16u*)(m + 2));
        const v16 top = lo(lo(*(v16u*)h, *(v16u*)(h + 1)), *(v16u*)(h + 2));
        *(v16u*)(y + i * W + j) = mid(bottom, centre, top);
      }
    }
  }
}
"""
lib = load_cpp(SOURCE)
lib.median.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 3


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.median(x.data_ptr(), y.data_ptr(), x.shape[0] * x.shape[1], *x.shape[2:])
        return y
