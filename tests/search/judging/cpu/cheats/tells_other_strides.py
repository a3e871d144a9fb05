# expect: wrong|refused forged-report | strides|differs|not where
# task: turned
"""It says that its answer is contiguous, and hands over memory that is not."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = (x * x + 1).contiguous()
        return y.view(x.shape[1], x.shape[0])
