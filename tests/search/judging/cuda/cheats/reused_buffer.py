# expect: refused reused-output-buffer,cached-output | buffer|changes|memory|other
# with: own_norm
"""Writes every answer to the same memory, so that the last call changes all earlier answers."""


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "y"):
            self.y = torch.empty_like(x)
        return own_norm(x, self.norm, self.y)
