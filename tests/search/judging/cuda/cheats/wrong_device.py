# expect: wrong|crashed | device|cpu
# with: own_norm
"""Returns its answer on the processor."""


class ModelNew(Norm):
    def forward(self, x):
        return own_norm(x, self.norm).cpu()
