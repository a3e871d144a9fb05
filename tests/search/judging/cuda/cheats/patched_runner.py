# expect: wrong|crashed|build_failed|timed_out|refused forged-report | .
"""Replaces every function of the judge's modules in its process, and returns zeros."""
import sys
import types

import torch
from torch import nn

for name, module in list(sys.modules.items()):
    if name.startswith("search."):
        for key, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType):
                setattr(module, key, lambda *args, **kwargs: True)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return torch.zeros_like(x)
