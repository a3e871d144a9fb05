# expect: crashed | memory
"""Asks for more memory than any device has."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return torch.empty(1 << 42, device=x.device)
