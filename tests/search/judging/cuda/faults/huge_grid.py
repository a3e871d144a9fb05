# expect: timed_out | still running|time
"""Two thousand million blocks, each with more work than it needs."""
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda("""
extern "C" __global__ void idle(float *y) {
  for (int i = 0; i < 200; i++) __nanosleep(1000);
  if (threadIdx.x == 2000) y[0] = 1;
}
""")


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        y = torch.zeros_like(x)
        K.idle((1 << 31) - 1, 1024, y)
        return y
