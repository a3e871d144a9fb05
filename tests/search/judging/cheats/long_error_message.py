# expect: build_failed|crashed|timed_out
# within: 10
"""Forges an error of a compiler that is costly to explain."""

import json
import os
import stat

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        line = json.dumps({"raised": {"type": "CompilationError", "message": "at 1:1:\n" * 16000}}).encode() + b"\n"
        for descriptor in range(3, 8):
            left = line
            try:
                while left and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    left = left[os.write(descriptor, left) :]
            except OSError:
                continue
        while True:
            pass
