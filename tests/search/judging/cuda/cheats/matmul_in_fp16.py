# expect: wrong | differs
# task: linear
# with: own_linear
"""Rounds its factors to float16, which a strict task forbids."""


class ModelNew(Linear):
    def forward(self, x):
        return own_linear(x, self.linear, low=tl.float16)
