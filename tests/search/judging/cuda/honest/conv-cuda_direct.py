# interpreter: no, it is CUDA C++
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda(r"""
// A block computes a 16 x 16 patch of eight channels; the input's patch is shared.
extern "C" __global__ void conv(const float *x, const float *w, const float *bias, float *y, int inner,
                                int outer, int side) {
  __shared__ float patch[18][19], weight[8][9];
  int across = side / 16 + (side % 16 != 0), column = blockIdx.x % across * 16, row = blockIdx.x / across * 16;
  int first = blockIdx.y * 8, image = blockIdx.z, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float total[8] = {};
  for (int c = 0; c < inner; c++) {
    for (int i = threadIdx.x; i < 18 * 18; i += 256) {
      int r = row + i / 18 - 1, q = column + i % 18 - 1;
      bool inside = r >= 0 && r < side && q >= 0 && q < side;
      patch[i / 18][i % 18] = inside ? x[((long long)(image * inner + c) * side + r) * side + q] : 0.f;
    }
    if (threadIdx.x < 72) {
      int o = first + threadIdx.x / 9;
      weight[threadIdx.x / 9][threadIdx.x % 9] = o < outer ? w[(o * inner + c) * 9 + threadIdx.x % 9] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int o = 0; o < 8; o++)
#pragma unroll
      for (int tap = 0; tap < 9; tap++) total[o] += patch[ty + tap / 3][tx + tap % 3] * weight[o][tap];
    __syncthreads();
  }
  if (row + ty >= side || column + tx >= side) return;
  for (int o = 0; o < 8 && first + o < outer; o++)
    y[((long long)(image * outer + first + o) * side + row + ty) * side + column + tx] = total[o] + bias[first + o];
}
""")


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1)

    def forward(self, x):
        images, inner, side, _ = x.shape
        outer = self.conv.weight.shape[0]
        y = torch.empty(images, outer, side, side, device=x.device)
        grid = ((-(-side // 16)) ** 2, -(-outer // 8), images)
        K.conv(grid, 256, x, self.conv.weight, self.conv.bias, y, inner, outer, side)
        return y
