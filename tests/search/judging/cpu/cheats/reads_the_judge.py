# expect: crashed | PermissionError
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        open("/proc/@JUDGE@/mem", "rb").read(1)
