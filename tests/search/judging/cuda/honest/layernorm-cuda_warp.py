# interpreter: no, it is CUDA C++
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda(r"""
__device__ float all(float value) {
  for (int step = 16; step; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}
// A warp takes a row and keeps it in registers.
extern "C" __global__ void norm_rows(const float *x, const float *w, const float *b, float *y, int rows,
                                int columns, float eps) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const float *a = x + (long long)row * columns;
  float kept[32], sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < 32; i++) {
    int at = i * 32 + threadIdx.x;
    kept[i] = at < columns ? a[at] : 0.f;
    sum += kept[i];
  }
  float mean = all(sum) / columns;
#pragma unroll
  for (int i = 0; i < 32; i++) {
    float gap = i * 32 + threadIdx.x < columns ? kept[i] - mean : 0.f;
    squares += gap * gap;
  }
  float scale = 1.f / sqrtf(all(squares) / columns + eps);
#pragma unroll
  for (int i = 0; i < 32; i++) {
    int at = i * 32 + threadIdx.x;
    if (at < columns) y[(long long)row * columns + at] = (kept[i] - mean) * scale * w[at] + b[at];
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        rows, columns = x.shape
        assert columns <= 1024
        y = torch.empty_like(x)
        K.norm_rows(
            -(-rows // 4), (32, 4), x, self.norm.weight, self.norm.bias, y, rows, columns, self.norm.eps
        )
        return y
