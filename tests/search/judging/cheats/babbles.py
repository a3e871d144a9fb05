# expect: refused forged-report | not JSON
import torch
import torch.nn as nn
import torch.nn.functional as F

import os


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        for descriptor in range(3, 8):
            try:
                os.write(descriptor, b"{{{\n")
            except OSError:
                continue
        return self.norm(x)
