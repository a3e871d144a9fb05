# expect: crashed | PermissionError|not permitted
# with: own_norm
"""Attaches to the judge as a debugger does."""
import ctypes


class ModelNew(Norm):
    def forward(self, x):
        if ctypes.CDLL(None, use_errno=True).ptrace(0x4206, int("@JUDGE@"), 0, 0) < 0:
            raise PermissionError(ctypes.get_errno(), "not permitted")
        return own_norm(x, self.norm)
