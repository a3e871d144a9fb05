# expect: timed_out | still running|time
"""Its kernel waits for a flag that nobody sets."""
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def wait(flag):
    while tl.atomic_add(flag, 0) == 0:
        pass


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        wait[(1,)](torch.zeros(1, dtype=torch.int32, device=x.device))
        return torch.zeros_like(x)
