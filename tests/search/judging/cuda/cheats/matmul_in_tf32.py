# expect: wrong | differs
# task: linear
# with: own_linear
"""Rounds its factors to tf32, which a strict task forbids."""


class ModelNew(Linear):
    def forward(self, x):
        return own_linear(x, self.linear, "tf32")
