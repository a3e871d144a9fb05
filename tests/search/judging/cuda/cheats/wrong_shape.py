# expect: wrong | shape
# with: own_norm
"""Returns its rows in one long line."""


class ModelNew(Norm):
    def forward(self, x):
        return own_norm(x, self.norm).flatten()
