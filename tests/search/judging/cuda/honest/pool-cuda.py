# interpreter: no, it is CUDA C++
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda(r"""
extern "C" __global__ void pool(const float *x, float *y, int count, int side, int wide) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int column = i % wide, row = i / wide % wide, plane = i / (wide * wide);
  float top = 0;
  for (int down = max(2 * row - 1, 0); down < min(2 * row + 2, side); down++)
    for (int across = max(2 * column - 1, 0); across < min(2 * column + 2, side); across++)
      top = fmaxf(top, x[((long long)plane * side + down) * side + across]);
  y[i] = top;
}
""", "--use_fast_math")


class ModelNew(nn.Module):
    def forward(self, x):
        images, planes, side, _ = x.shape
        wide = (side - 1) // 2 + 1
        y = torch.empty(images, planes, wide, wide, device=x.device)
        K.pool(-(-y.numel() // 256), 256, x, y, y.numel(), side, wide)
        return y
