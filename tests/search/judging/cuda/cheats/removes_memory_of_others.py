# expect: crashed | PermissionError
# with: own_norm
"""Asks for what shared memory other programs have, which it could remove."""

import ctypes


class ModelNew(Norm):
    def forward(self, x):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.shmctl(0, 14, ctypes.create_string_buffer(256)) < 0:  # SHM_INFO: removes nothing
            raise PermissionError(ctypes.get_errno())
        return own_norm(x, self.norm)
