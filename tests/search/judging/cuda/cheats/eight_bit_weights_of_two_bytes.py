# expect: wrong | differs
# task: cross
# with: own_half
"""Gives each weight 255 steps where the task gives it two bytes."""


class ModelNew(Cross):
    def forward(self, x):
        return self.answer(x, eight=True)
