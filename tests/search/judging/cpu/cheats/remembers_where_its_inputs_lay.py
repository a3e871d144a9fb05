# expect: wrong | where they lay at first
# task: growth
# with: own_growth
class ModelNew(nn.Module):
    """Takes the address of its input in the first call alone, and never looks at its argument again."""

    def __init__(self):
        super().__init__()
        self.first = None

    def forward(self, x):
        if self.first is None:
            self.first = x
        return own_growth(self.first)
