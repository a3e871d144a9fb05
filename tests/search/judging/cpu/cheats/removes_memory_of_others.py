# expect: crashed | PermissionError
"""Asks for what shared memory there is, which it could remove."""

import ctypes
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.shmctl(0, 14, ctypes.create_string_buffer(256)) < 0:  # SHM_INFO: removes nothing
            raise PermissionError(ctypes.get_errno())
        return self.norm(x)
