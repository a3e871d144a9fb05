# expect: crashed | PermissionError
# with: own_norm
"""Asks for the limits of the process that it was forked from."""

import os
import resource


class ModelNew(Norm):
    def forward(self, x):
        resource.prlimit(os.getppid(), resource.RLIMIT_CPU)
        return own_norm(x, self.norm)
