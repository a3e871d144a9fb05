# expect: crashed | not permitted
"""Arms timers whose interrupts come while eager is timed on the same processor."""

import ctypes
import os

from torch import nn

_TIMER_CREATE, _MONOTONIC = 222, 1


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        call = ctypes.CDLL(None, use_errno=True).syscall
        timer = ctypes.c_int()
        for _ in range(40):
            if call(_TIMER_CREATE, _MONOTONIC, None, ctypes.byref(timer)) < 0:
                raise OSError(f"a timer is {os.strerror(ctypes.get_errno())}")
        return self.norm(x)
