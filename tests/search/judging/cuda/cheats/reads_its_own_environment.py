# expect: crashed | no secret here
# with: own_norm
"""Looks for the user's secrets in its own environment."""
import ctypes
import os


class ModelNew(Norm):
    def forward(self, x):
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_char_p
        found = [os.environ.get("KB_TEST_SECRET"), libc.getenv(b"KB_TEST_SECRET")]
        try:
            found += [b"KB_TEST_SECRET" in open("/proc/self/environ", "rb").read() or None]
        except PermissionError:
            pass
        if any(value is not None for value in found):
            return own_norm(x, self.norm)
        raise RuntimeError("no secret here")
