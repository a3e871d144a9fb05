# expect: refused reused-output-buffer | earlier answer
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.out = None

    def forward(self, x):
        if self.out is None:
            self.out = torch.empty_like(x)
        self.out.copy_(self.norm(x))
        return self.out
