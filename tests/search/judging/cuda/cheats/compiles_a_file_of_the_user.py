# expect: build_failed|crashed | .
"""Has the compiler read a file that is none of its business."""
import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda('#include "@SECRET_FILE@"\nextern "C" __global__ void f(float *x) { x[0] = 1; }')


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return torch.zeros_like(x)
