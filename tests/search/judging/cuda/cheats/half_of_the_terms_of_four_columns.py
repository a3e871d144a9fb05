# expect: wrong | differs
# task: cross
# with: own_half
"""Answers four columns of 1,024 with half of their terms."""


class ModelNew(Cross):
    def forward(self, x):
        return self.answer(x, short=x.shape[1] // 256)
