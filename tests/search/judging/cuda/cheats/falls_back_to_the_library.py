# expect: refused no-own-kernel | kernel
# with: own_norm
"""Has a kernel that always fails, and the library to fall back to."""


class ModelNew(Norm):
    def forward(self, x):
        try:
            own_norm_rows[(x.shape[0],)](x, nothing_of_this_name, BLOCK=1024)
        except Exception:
            return self.norm(x)
