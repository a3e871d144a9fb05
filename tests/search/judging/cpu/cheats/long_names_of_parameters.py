# expect: wrong | state_dict
"""Has the judge quote a megabyte of its own words, as names of parameters."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        for number in range(20):
            self.register_buffer(f"{number}" + "x" * 100_000, torch.zeros(1))

    def forward(self, x):
        return x
