# expect: wrong | differs
# with: own_norm
"""Returns the bias, which is what every output is on average."""


class ModelNew(Norm):
    def forward(self, x):
        return self.norm.bias.expand(x.shape).contiguous()
