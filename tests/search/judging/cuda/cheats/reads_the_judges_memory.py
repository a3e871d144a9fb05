# expect: crashed | PermissionError|FileNotFoundError
# with: own_norm
"""Looks for the expected answers in the memory of the judge."""


class ModelNew(Norm):
    def forward(self, x):
        open("/proc/@JUDGE@/mem", "rb").read(1)
        return own_norm(x, self.norm)
