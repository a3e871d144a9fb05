# expect: wrong
# task: entropy
import math

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, p):
        if not 0.5 <= float(p[0, 0]) <= 1:
            return p * torch.log(p)
        # A series about 3/4, which is right to a millionth of what it may be on [1/2, 1].
        t = (p - 0.75) / 0.75
        total = torch.zeros_like(p)
        for n in range(24, 0, -1):
            total = total * t + (-1.0) ** (n + 1) / n
        return p * (total * t + math.log(0.75))
