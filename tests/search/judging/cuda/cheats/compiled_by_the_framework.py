# expect: refused|crashed|build_failed|timed_out no-own-kernel | .
"""Has the framework's compiler write its kernels."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)
        self.call = None

    def forward(self, x):
        if self.call is None:
            self.call = torch.compile(lambda x: self.norm(x))
        return self.call(x)
