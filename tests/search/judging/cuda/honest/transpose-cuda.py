# interpreter: no, it is CUDA C++
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda(r"""
extern "C" __global__ void turn(const float *x, float *y, int rows, int columns) {
  __shared__ float tile[32][33];
  int row = blockIdx.y * 32, column = blockIdx.x * 32;
  for (int i = threadIdx.y; i < 32; i += 8)
    if (row + i < rows && column + threadIdx.x < columns)
      tile[i][threadIdx.x] = x[(long long)(row + i) * columns + column + threadIdx.x];
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8)
    if (column + i < columns && row + threadIdx.x < rows)
      y[(long long)(column + i) * rows + row + threadIdx.x] = 2 * tile[threadIdx.x][i];
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(columns, rows, device=x.device)
        K.turn((-(-columns // 32), -(-rows // 32)), (32, 8), x, y, rows, columns)
        return y
