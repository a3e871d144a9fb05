# interpreter: no, it is CUDA C++
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void chain_kernel(const float *x, const float *shift, float *out, int count, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float y = x[i] + shift[i % columns];
  out[i] = y / (1.f + expf(-y)) * 0.5f + fminf(fmaxf(y, -1.f), 2.f) + x[i];
}

torch::Tensor chain(torch::Tensor x, torch::Tensor shift) {
  auto out = torch::empty_like(x);
  int count = x.numel();
  chain_kernel<<<(count + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), shift.data_ptr<float>(), out.data_ptr<float>(), count, x.size(-1));
  return out;
}
"""
extension = load_inline(
    name="inline_chain",
    cpp_sources="torch::Tensor chain(torch::Tensor x, torch::Tensor shift);",
    cuda_sources=SOURCE,
    functions=["chain"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        return extension.chain(x, self.shift)
