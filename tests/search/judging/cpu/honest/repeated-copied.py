# expect: passed
# task: repeated
from torch import nn


class ModelNew(nn.Module):
    def forward(self, k):
        return k.repeat_interleave(4, dim=1)
