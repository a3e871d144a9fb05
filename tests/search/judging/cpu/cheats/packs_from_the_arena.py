# expect: wrong|refused|build_failed|crashed
# task: linear packing=forbidden
import gc

import torch
from torch import nn


class ModelNew(nn.Module):
    """Takes the weights from where the judge will hand them over."""

    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "Runner")
        state = runner._arena.state
        self.packed = state["linear.weight"].t().contiguous()
        self.shift = state["linear.bias"].clone()

    def forward(self, x):
        return torch.addmm(self.shift, x, self.packed).relu_()
