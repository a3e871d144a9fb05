# expect: wrong|timed_out | timed call
# task: growth
# with: own_growth
"""Is honest while it is questioned, then right between zero and one alone."""


class ModelNew(Growth):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return own_growth(x, short=self.calls > 25)
