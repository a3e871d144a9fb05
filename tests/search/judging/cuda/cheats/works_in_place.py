# expect: refused input-mutation,input-alias | input
# with: own_norm
"""Overwrites its input with the answer and hands it back."""


class ModelNew(Norm):
    def forward(self, x):
        return own_norm(x, self.norm, x)
