# expect: wrong | indices of dimension 0
# with: own_norm
"""Computes every sixteenth row right and the rest not at all."""


class ModelNew(Norm):
    def forward(self, x):
        y = torch.zeros_like(x)
        y[::16] = own_norm(x[::16].contiguous(), self.norm)
        return y
