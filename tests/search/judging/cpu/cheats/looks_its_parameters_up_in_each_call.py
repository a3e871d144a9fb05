# expect: wrong
# task: linear
import gc

import torch
from torch import nn


class ModelNew(nn.Module):
    """Has parameters, and computes with the judge's copy of them."""

    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "Runner")
        self.given = [runner._arena.state]

    def forward(self, x):
        state = self.given[0]
        return torch.relu(torch.addmm(state["linear.bias"], x, state["linear.weight"].t()))
