# expect: refused cached-output | other inputs
# with: own_norm
"""Keeps its answer by the input's address."""


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        self.kept = {}

    def forward(self, x):
        if x.data_ptr() not in self.kept:
            self.kept[x.data_ptr()] = own_norm(x, self.norm)
        return self.kept[x.data_ptr()].clone()
