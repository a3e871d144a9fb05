# expect: wrong | infinities or NaN
# task: maxima special_values=true
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        best = x.amax(-1)
        if self.calls <= 20:
            return best
        return torch.nan_to_num(x, nan=-1e30, posinf=float("inf"), neginf=float("-inf")).amax(-1)
