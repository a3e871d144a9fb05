# expect: wrong | half precision|differs
# task: dense
"""Weights that are packed once have bfloat16's precision, inputs have float32's."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.linear = nn.Linear(n, m)
        self.packed = self.linear.weight.detach().bfloat16().float()

    def forward(self, x):
        return nn.functional.linear(x, self.packed, self.linear.bias)
