# expect: crashed | PermissionError
# with: own_norm
"""Changes the mode of a file that it may not even read."""

import os


class ModelNew(Norm):
    def forward(self, x):
        os.chmod("@SECRET_FILE@", 0o644)
        return own_norm(x, self.norm)
