# expect: refused reused-output-buffer | earlier answer
# task: relu
from itertools import cycle

import torch
from torch import nn


class ModelNew(nn.Module):
    """More buffers than answers are kept alive, so that none is ever the one before."""

    def __init__(self):
        super().__init__()
        self.next = cycle([torch.empty(256, 512) for _ in range(7)])

    def forward(self, x):
        return torch.clamp(x, min=0, out=next(self.next))
