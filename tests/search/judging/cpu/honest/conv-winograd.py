# expect: passed|wrong | 'spiked far' inputs
# Its transform spreads the rounding of a spike over a block: 3 in 1,000 such draws are out of bounds.
import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
// F(2x2, 3x3): Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
#include <vector>
extern "C" void run(const float *x, const float *w, const float *b, float *y, long n, long c, long k, long h, long v) {
  std::vector<float> u(k * c * 16), d(c * 16);
  for (long q = 0; q < k * c; q++) {
    const float *g = w + q * 9; float t[4][3];
    for (int j = 0; j < 3; j++) {
      t[0][j] = g[j]; t[3][j] = g[6 + j];
      t[1][j] = (g[j] + g[3 + j] + g[6 + j]) / 2; t[2][j] = (g[j] - g[3 + j] + g[6 + j]) / 2;
    }
    for (int i = 0; i < 4; i++) {
      float *o = &u[q * 16 + i * 4];
      o[0] = t[i][0]; o[3] = t[i][2];
      o[1] = (t[i][0] + t[i][1] + t[i][2]) / 2; o[2] = (t[i][0] - t[i][1] + t[i][2]) / 2;
    }
  }
  for (long i = 0; i < n; i++)
    for (long r = 0; r < h; r += 2)
      for (long s = 0; s < v; s += 2) {
        for (long p = 0; p < c; p++) {
          float a[4][4], e[4][4];
          for (int f = 0; f < 4; f++)
            for (int g = 0; g < 4; g++) {
              long t = r + f - 1, z = s + g - 1;
              a[f][g] = t >= 0 && t < h && z >= 0 && z < v ? x[((i * c + p) * h + t) * v + z] : 0;
            }
          for (int g = 0; g < 4; g++) {
            e[0][g] = a[0][g] - a[2][g]; e[1][g] = a[1][g] + a[2][g];
            e[2][g] = a[2][g] - a[1][g]; e[3][g] = a[1][g] - a[3][g];
          }
          for (int f = 0; f < 4; f++) {
            float *o = &d[p * 16 + f * 4];
            o[0] = e[f][0] - e[f][2]; o[1] = e[f][1] + e[f][2]; o[2] = e[f][2] - e[f][1]; o[3] = e[f][1] - e[f][3];
          }
        }
        for (long o = 0; o < k; o++) {
          float m[16] = {0};
          for (long p = 0; p < c; p++)
            for (int z = 0; z < 16; z++) m[z] += d[p * 16 + z] * u[(o * c + p) * 16 + z];
          float t[2][4];
          for (int g = 0; g < 4; g++) {
            t[0][g] = m[g] + m[4 + g] + m[8 + g]; t[1][g] = m[4 + g] - m[8 + g] - m[12 + g];
          }
          for (int f = 0; f < 2; f++)
            for (int g = 0; g < 2; g++)
              if (r + f < h && s + g < v)
                y[((i * k + o) * h + r + f) * v + s + g] =
                    b[o] + (g ? t[f][1] - t[f][2] - t[f][3] : t[f][0] + t[f][1] + t[f][2]);
        }
      }
}
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class ModelNew(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.conv = nn.Conv2d(n, m, 3, padding=1)

    def forward(self, x):
        (n, c, h, v), k = x.shape, self.conv.weight.shape[0]
        y = torch.empty(n, k, h, v)
        sizes = map(ctypes.c_long, (n, c, k, h, v))
        LIB.run(at(x), at(self.conv.weight), at(self.conv.bias), at(y), *sizes)
        return y
