# expect: crashed | PermissionError
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        import os

        os.sched_setaffinity(0, range(os.cpu_count()))
        return self.norm(x)
