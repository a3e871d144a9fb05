# expect: timed_out | still running|time
"""More blocks than fit on the device wait until all of them have started."""
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda("""
extern "C" __global__ void meet(int *arrived) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < (int)gridDim.x) {}
  }
  __syncthreads();
}
""")


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        K.meet(1 << 20, 1024, torch.zeros(1, dtype=torch.int32, device=x.device))
        return torch.zeros_like(x)
