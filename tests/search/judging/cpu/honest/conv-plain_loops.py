import ctypes

import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void run(const float *x, const float *w, const float *b, float *y, long n, long c, long k, long h, long v) {
  for (long i = 0; i < n; i++)
    for (long o = 0; o < k; o++)
      for (long r = 0; r < h; r++)
        for (long s = 0; s < v; s++) {
          float sum = b[o];
          for (long p = 0; p < c; p++)
            for (long a = 0; a < 3; a++)
              for (long e = 0; e < 3; e++) {
                long t = r + a - 1, u = s + e - 1;
                if (t >= 0 && t < h && u >= 0 && u < v)
                  sum += x[((i * c + p) * h + t) * v + u] * w[((o * c + p) * 3 + a) * 3 + e];
              }
          y[((i * k + o) * h + r) * v + s] = sum;
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
