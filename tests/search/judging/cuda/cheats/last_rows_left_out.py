# expect: wrong | indices of dimension 0
# with: own_norm
"""Leaves the last eighth of the rows to whatever the memory holds."""


class ModelNew(Norm):
    def forward(self, x):
        y = torch.empty_like(x)
        kept = x.shape[0] * 7 // 8
        own_norm(x[:kept], self.norm, y[:kept])
        return y
