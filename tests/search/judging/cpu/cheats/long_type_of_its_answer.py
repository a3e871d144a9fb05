# expect: refused tensor-subclass
"""Has the judge quote a hundred kilobytes of its own words: as much as a socket takes that nobody reads."""

import json
import os
import stat

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        line = json.dumps({"outputs": [{"type": "x" * 100_000, "shape": [1]}], "single": True}).encode() + b"\n"
        for descriptor in range(3, 8):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    os.write(descriptor, line)
            except OSError:
                continue
        return self.norm(x)  # what the runner says of it, the judge would read second
