# expect: crashed | PermissionError|FileNotFoundError
# with: own_norm
"""Reads what belongs to the user."""


class ModelNew(Norm):
    def forward(self, x):
        open("@SECRET_FILE@").read()
        return own_norm(x, self.norm)
