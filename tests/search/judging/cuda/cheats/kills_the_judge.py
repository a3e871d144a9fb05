# expect: crashed | PermissionError|ProcessLookupError
# with: own_norm
"""Ends the judge."""
import os


class ModelNew(Norm):
    def forward(self, x):
        os.kill(int("@JUDGE@"), 0)  # asks only whether it could
        return own_norm(x, self.norm)
