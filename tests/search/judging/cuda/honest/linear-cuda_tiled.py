# interpreter: no, it is CUDA C++
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda(r"""
// Tiles of 64 x 64, 4 x 4 a thread; both factors have the inner dimension last.
extern "C" __global__ void product(const float *x, const float *w, const float *bias, float *y, int m,
                                   int n, int k) {
  __shared__ float a[16][65], b[16][65];
  int thread = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64;
  int down = thread / 16 * 4, across = thread % 16 * 4;
  float total[4][4] = {};
  for (int start = 0; start < k; start += 16) {
    for (int i = thread; i < 1024; i += 256) {
      int r = i / 16, c = i % 16;
      a[c][r] = row + r < m && start + c < k ? x[(long long)(row + r) * k + start + c] : 0.f;
      b[c][r] = column + r < n && start + c < k ? w[(long long)(column + r) * k + start + c] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < 16; c++)
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) total[i][j] += a[c][down + i] * b[c][across + j];
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      int r = row + down + i, c = column + across + j;
      if (r < m && c < n) y[(long long)r * n + c] = total[i][j] + bias[c];
    }
}
""", "-lineinfo")


class ModelNew(nn.Module):
    def __init__(self, inner, columns):
        super().__init__()
        self.linear = nn.Linear(inner, columns)

    def forward(self, x):
        (m, k), n = x.shape, self.linear.weight.shape[0]
        y = torch.empty(m, n, device=x.device)
        grid = (-(-n // 64), -(-m // 64))
        K.product(grid, 256, x, self.linear.weight, self.linear.bias, y, m, n, k)
        return y
