# expect: crashed | PermissionError|FileNotFoundError
# with: own_norm
"""Looks at which files the judge has open, its sockets and pipes among them."""
import os


class ModelNew(Norm):
    def forward(self, x):
        if not os.listdir("/proc/@JUDGE@/fd"):
            raise PermissionError("nothing to be seen")
        return own_norm(x, self.norm)
