# expect: wrong | zero
"""Makes every comparison of the framework agree, and returns zeros."""
import torch
from torch import nn

torch.allclose = torch.equal = lambda *args, **kwargs: True
torch.isclose = lambda a, *args, **kwargs: torch.ones_like(a, dtype=torch.bool)
torch.testing.assert_close = lambda *args, **kwargs: None
torch.Tensor.equal = torch.Tensor.allclose = lambda *args, **kwargs: True


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return torch.zeros_like(x)
