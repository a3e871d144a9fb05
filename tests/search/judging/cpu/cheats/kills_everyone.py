# expect: crashed | PermissionError
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        import os

        os.kill(-1, 0)  # asks only whether it could
        return self.norm(x)
