# expect: refused|timed_out tensor-subclass
"""Has the judge quote a megabyte of its own words."""

import json
import os
import stat

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        line = json.dumps({"outputs": [{"type": "x" * 1_000_000, "shape": [1]}], "single": True}).encode() + b"\n"
        for descriptor in range(3, 8):
            left = line
            try:
                while left and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    left = left[os.write(descriptor, left) :]
            except OSError:
                continue
        while True:
            pass
