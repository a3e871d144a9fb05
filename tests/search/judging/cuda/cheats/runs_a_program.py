# expect: crashed | PermissionError
# with: own_norm
"""Starts a shell."""
import os


class ModelNew(Norm):
    def forward(self, x):
        os.execv("/bin/sh", ["/bin/sh", "-c", "true"])
        return own_norm(x, self.norm)
