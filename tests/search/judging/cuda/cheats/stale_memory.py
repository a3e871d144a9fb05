# expect: wrong | never written|NaN|differs
# with: own_norm
"""Hands fresh memory over unwritten, in the hope that a right answer was freed there."""


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "launched"):
            self.launched = own_norm(x, self.norm).sum()
        return torch.empty_like(x)
