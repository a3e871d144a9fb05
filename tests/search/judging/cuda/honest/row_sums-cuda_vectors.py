# interpreter: no, it is CUDA C++
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda(r"""
extern "C" __global__ void add(const float *x, float *y, int columns) {
  __shared__ float warps[32];
  const float4 *row = (const float4 *)(x + (long long)blockIdx.x * columns);
  float4 total = make_float4(0, 0, 0, 0);
  for (int i = threadIdx.x; i < columns / 4; i += blockDim.x) {
    float4 a = row[i];
    total.x += a.x, total.y += a.y, total.z += a.z, total.w += a.w;
  }
  float sum = total.x + total.y + (total.z + total.w);
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < blockDim.x / 32; warp++) sum += warps[warp];
    y[blockIdx.x] = sum;
  }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        assert columns % 4 == 0
        y = torch.empty(rows, device=x.device)
        K.add(rows, 1024, x, y, columns)
        return y
