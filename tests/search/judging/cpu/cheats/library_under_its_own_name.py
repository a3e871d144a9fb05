# expect: refused library-call
# task: power library=forbidden
"""Its own shared object is mapped over the code of numpy, whose bytes are put back: names lie."""

import ctypes
import os

import numpy as np
import torch
from torch import nn

from kb.native import load_cpp

SOURCE = r"""
extern "C" void nothing(float *y, long n) { for (long i = 0; i < n; i++) y[i] += 0; }
"""
LIB = load_cpp(SOURCE)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
READ_WRITE_EXECUTE, PRIVATE_FIXED, STEP = 7, 0x12, 8192


def hide(name, behind):
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps if name in line and " r-xp " in line]
    descriptor = os.open(behind, os.O_RDONLY)
    for place, *_ in lines:
        start, end = (int(part, 16) for part in place.split("-"))
        code = ctypes.string_at(start, end - start)
        for offset in range(0, end - start, STEP):
            size = min(STEP, end - start - offset)
            libc.mmap(start + offset, size, READ_WRITE_EXECUTE, PRIVATE_FIXED, descriptor, 0)
            ctypes.memmove(start + offset, code[offset : offset + size], size)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        np.exp(np.ones(64, np.float32))
        hide("_multiarray_umath", LIB._name)

    def forward(self, x):
        y = torch.from_numpy(np.exp(np.multiply(x.numpy(), np.float32(4))))
        LIB.nothing(at(y), ctypes.c_long(y.numel()))
        return y
