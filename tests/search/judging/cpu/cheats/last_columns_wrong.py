# expect: wrong | of dimension 1, from 192 to 255
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        result = self.norm(x)
        result[:, 192:] = 0
        return result
