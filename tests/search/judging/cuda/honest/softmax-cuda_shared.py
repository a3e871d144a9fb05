# interpreter: no, it is CUDA C++
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda(r"""
// A block takes a row and holds it in shared memory.
__device__ float all(float value, bool greatest, float *shared) {
  for (int step = 16; step; step /= 2) {
    float other = __shfl_xor_sync(~0u, value, step);
    value = greatest ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < blockDim.x / 32; warp++)
    value = greatest ? fmaxf(value, shared[warp]) : value + shared[warp];
  return value;
}
extern "C" __global__ void softmax(const float *x, float *y, int columns) {
  extern __shared__ float row[];
  __shared__ float warps[32];
  const float *a = x + (long long)blockIdx.x * columns;
  float *b = y + (long long)blockIdx.x * columns, top = -INFINITY, total = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, row[i] = a[i]);
  top = all(top, true, warps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) total += row[i] = expf(row[i] - top);
  float scale = 1.f / all(total, false, warps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) b[i] = row[i] * scale;
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        K.softmax(rows, 256, x, y, columns, shared=4 * columns)
        return y
