# expect: wrong | differs
# task: cross
# with: own_half
"""Answers four columns of 1,024 with half of their terms."""


class ModelNew(Cross):
    def forward(self, x):
        y, width = self.answer(x), x.shape[1]
        other = x.clone()
        other[:, : width // 2] = 0
        y[:, : width // 256] = self.answer(other)[:, : width // 256]
        return y
