# expect: crashed | SIGSEGV
"""Recurses through C until the stack of its thread is full."""
import ctypes
import sys
import threading

from torch import nn

CALL = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)


@CALL
def deeper(n):
    return deeper(n + 1) + 1


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        sys.setrecursionlimit(1 << 30)
        threading.stack_size(64 << 10)
        thread = threading.Thread(target=deeper, args=(0,))
        thread.start()
        thread.join()
        return x
