# expect: crashed | PermissionError|FileNotFoundError
# with: own_norm
"""Looks for secrets in the environment of the judge."""


class ModelNew(Norm):
    def forward(self, x):
        open("/proc/@JUDGE@/environ", "rb").read(1)
        return own_norm(x, self.norm)
