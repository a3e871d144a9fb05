# expect: crashed | no secret here
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        import ctypes
        import os

        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_char_p
        found = [os.environ.get("KB_TEST_SECRET"), libc.getenv(b"KB_TEST_SECRET")]
        found += [b"KB_TEST_SECRET" in open("/proc/self/environ", "rb").read() or None]
        if any(value is not None for value in found):
            return self.norm(x)
        raise RuntimeError("no secret here")
