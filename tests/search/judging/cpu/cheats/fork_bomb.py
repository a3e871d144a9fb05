# expect: crashed | PermissionError
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        import os

        import time

        for _ in range(64):
            if os.fork() == 0:
                time.sleep(2)
                os._exit(0)
        return self.norm(x)
