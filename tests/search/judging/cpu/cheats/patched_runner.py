# expect: refused input-alias | memory of its inputs
import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        runner = sys.modules["search.sandbox.runner"]
        told = [
            {
                "type": "Tensor",
                "shape": [48, 256],
                "dtype": "torch.float32",
                "device": "cpu",
                "strides": [256, 1],
            }
        ]
        runner.described = lambda result: {"outputs": told, "single": True, "copied": True}
        torch.allclose = torch.equal = lambda *a, **k: True

    def forward(self, x):
        return x
