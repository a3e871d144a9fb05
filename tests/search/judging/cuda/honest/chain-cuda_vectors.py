# interpreter: no, it is CUDA C++
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda(r"""
__device__ float one(float x, float shift) {
  float y = x + shift;
  return y / (1.f + expf(-y)) * 0.5f + fminf(fmaxf(y, -1.f), 2.f) + x;
}
extern "C" __global__ void chain(const float4 *x, const float4 *shift, float4 *out, int count, int columns) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float4 a = x[i], s = shift[i % columns];
    out[i] = make_float4(one(a.x, s.x), one(a.y, s.y), one(a.z, s.z), one(a.w, s.w));
  }
}
""")


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        assert x.shape[-1] % 4 == 0
        out = torch.empty_like(x)
        K.chain(1056, 256, x, self.shift, out, x.numel() // 4, x.shape[-1] // 4)
        return out
