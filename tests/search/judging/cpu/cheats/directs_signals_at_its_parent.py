# expect: crashed | PermissionError
"""Has the kernel signal another process when its own socket is written to."""

import fcntl
import os
import struct

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        for descriptor in range(3, 8):
            try:
                fcntl.ioctl(descriptor, 0x8901, struct.pack("=i", os.getppid()))
            except PermissionError:
                raise
            except OSError:
                continue
        return self.norm(x)
