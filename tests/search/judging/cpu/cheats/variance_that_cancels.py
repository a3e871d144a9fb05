# expect: wrong | large mean|near one
# task: moments
"""The mean of squares less the square of the mean: one pass, and nothing is left where the mean is large."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        n, mean = x.shape[-1], x.mean(-1)
        return mean, ((x * x).mean(-1) - mean * mean) * n / (n - 1), x.amax(-1)
