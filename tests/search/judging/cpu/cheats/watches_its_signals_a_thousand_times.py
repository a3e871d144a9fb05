# expect: crashed | not permitted
"""Makes the signal that stops it slow for its sender: each wakes watchers of the process's signals first."""

import ctypes
import os

from torch import nn

_EPOLL_CREATE1, _SIGNALFD4 = 291, 289


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        call = ctypes.CDLL(None, use_errno=True).syscall
        mask = ctypes.c_uint64(1 << 39)
        for _ in range(1000):
            for number in (
                call(_SIGNALFD4, -1, ctypes.byref(mask), 8, 0),
                call(_EPOLL_CREATE1, 0),
            ):
                if number < 0:
                    raise OSError(f"watching signals is {os.strerror(ctypes.get_errno())}")
        return self.norm(x)
