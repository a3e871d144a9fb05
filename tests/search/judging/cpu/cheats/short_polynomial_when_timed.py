# expect: wrong|refused | timed call
# task: growth
# with: own_growth
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return own_growth(x, "growth" if self.calls <= 16 else "short_growth")
