# expect: crashed | memory
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        return torch.ones(25_000_000_000)[: x.numel()].reshape(x.shape)
