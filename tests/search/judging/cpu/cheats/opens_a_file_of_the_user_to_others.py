# expect: crashed | PermissionError
"""Changes the mode of a file that it may not even read."""

import os
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        os.chmod("@SECRET_FILE@", 0o644)
        return self.norm(x)
