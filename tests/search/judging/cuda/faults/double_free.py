# expect: crashed | SIGABRT|SIGSEGV
"""Frees the same memory twice."""
import ctypes

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        place = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(1 << 12)))
        for _ in range(64):
            libc.free(place)
        return x
