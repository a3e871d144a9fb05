# expect: crashed | PermissionError
# with: own_norm
"""Maps memory as shared, which the limit on its own data does not count."""

import mmap


class ModelNew(Norm):
    def forward(self, x):
        mmap.mmap(-1, 1 << 20)
        return own_norm(x, self.norm)
