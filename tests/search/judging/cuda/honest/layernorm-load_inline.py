# interpreter: no, it is CUDA C++
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

DECLARED = "torch::Tensor norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps);"
SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void norm_rows(const float *x, const float *w, const float *b, float *y, int columns, float eps) {
  __shared__ float shared[256];
  const float *a = x + (long long)blockIdx.x * columns;
  float total = 0;
  for (int i = threadIdx.x; i < columns; i += 256) total += a[i];
  shared[threadIdx.x] = total;
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  __syncthreads();
  float mean = shared[0] / columns;
  __syncthreads();
  total = 0;
  for (int i = threadIdx.x; i < columns; i += 256) total += (a[i] - mean) * (a[i] - mean);
  shared[threadIdx.x] = total;
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  __syncthreads();
  float scale = 1.f / sqrtf(shared[0] / columns + eps);
  for (int i = threadIdx.x; i < columns; i += 256)
    y[(long long)blockIdx.x * columns + i] = (a[i] - mean) * scale * w[i] + b[i];
}

torch::Tensor norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
  auto y = torch::empty_like(x);
  norm_rows<<<x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.size(1), eps);
  return y;
}
"""
module = load_inline(
    name="inline_norm", cpp_sources=DECLARED, cuda_sources=SOURCE, functions=["norm"], extra_cuda_cflags=["-O3"]
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return module.norm(x, self.norm.weight, self.norm.bias, self.norm.eps)
