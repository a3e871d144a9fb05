# expect: crashed | PermissionError
"""Sets limits through memory whose address has zeros in its lower half."""

import ctypes
import struct

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        at = libc.mmap(
            ctypes.c_void_p(7 << 32), ctypes.c_size_t(4096), 3, 0x32, -1, ctypes.c_long(0)
        )
        ctypes.memmove(at, struct.pack("=QQ", 1, 1 << 40), 16)
        if libc.prlimit(0, 4, ctypes.c_void_p(at), None) < 0:  # core dumps: does no harm
            raise PermissionError(ctypes.get_errno())
        return self.norm(x)
