# expect: refused|timed_out forged-report
"""Tells a number that no float can hold."""

import json
import os

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        line = b'{"outputs": [{"type": "Tensor", "shape": [1' + b"0" * 400 + b"]}]}\n"
        for descriptor in range(3, 8):
            try:
                os.write(descriptor, line)
            except OSError:
                continue
        while True:
            pass
