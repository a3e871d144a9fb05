# expect: wrong | differs
# task: gelu precision=kernelbench
"""The approximation that training scripts use is off by up to 5e-4."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x, approximate="tanh")
