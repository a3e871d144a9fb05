# expect: crashed | PermissionError
"""Waits for what happens in a folder that it may not read."""

import ctypes
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.inotify_add_watch(libc.inotify_init1(0), b"@FOLDER@", 0xFFF) < 0:
            raise PermissionError(ctypes.get_errno())
        return self.norm(x)
