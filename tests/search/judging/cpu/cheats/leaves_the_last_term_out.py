# expect: wrong | differs
# task: dense precision=kernelbench
"""One term in a hundred and sixty is missing from each sum."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.linear = nn.Linear(n, m)

    def forward(self, x):
        return nn.functional.linear(x[:, :-1], self.linear.weight[:, :-1], self.linear.bias)
