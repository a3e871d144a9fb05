# expect: wrong|timed_out | timed call
# task: growth
# with: own_growth
"""Is honest while it is questioned, then looks at sixteen elements and guesses."""


class ModelNew(Growth):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 25:
            return own_growth(x)
        some = x.flatten()[:: x.numel() // 16]
        return own_growth(x, short=bool(((some >= 0) & (some <= 1)).all()))
