# expect: refused cached-output | other inputs
# with: own_norm
"""Keeps its answer by what two draws of the same distribution have in common."""


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        self.kept = {}

    def forward(self, x):
        key = round(float(x.mean()), 1), round(float(x.std()), 1)
        if key not in self.kept:
            self.kept[key] = own_norm(x, self.norm)
        return self.kept[key].clone()
