# expect: build_failed | undeclared
"""Uses a variable that is not there in CUDA C++."""
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda("""
extern "C" __global__ void f(float *y) { y[0] = undeclared; }
""")


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return torch.zeros_like(x)
