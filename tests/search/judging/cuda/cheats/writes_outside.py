# expect: crashed | PermissionError|FileNotFoundError
# with: own_norm
"""Leaves a file behind."""


class ModelNew(Norm):
    def forward(self, x):
        open("@FOLDER@/written", "w").write("was here")
        return own_norm(x, self.norm)
