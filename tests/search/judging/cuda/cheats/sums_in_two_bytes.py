# expect: wrong | differs
# task: cross
# with: own_half
"""Rounds its running sums to two bytes after every 32 terms."""


class ModelNew(Cross):
    def forward(self, x):
        return self.answer(x, low=True)
