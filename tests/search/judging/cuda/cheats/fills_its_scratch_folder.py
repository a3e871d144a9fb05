# expect: crashed | scratch folder
# with: own_norm
"""Writes many files, each below the limit of one."""

import os


class ModelNew(Norm):
    def forward(self, x):
        for number in range(24):
            with open(os.path.join(os.environ["TMPDIR"], str(number)), "wb") as file:
                for _ in range(100):
                    file.write(bytes(1 << 20))
        return own_norm(x, self.norm)
