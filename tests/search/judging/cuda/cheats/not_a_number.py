# expect: wrong | NaN
"""Returns NaN everywhere, in the hope that no comparison with NaN is ever false."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return torch.full_like(x, float("nan"))
