# expect: wrong | strides
# with: own_norm
"""Returns one row that stands for all of them."""


class ModelNew(Norm):
    def forward(self, x):
        return own_norm(x[:1], self.norm).expand(x.shape)
