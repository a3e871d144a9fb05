# expect: refused reused-output-buffer | earlier answer
# task: relu
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.out = 0, [torch.empty(256, 512) for _ in range(2)]

    def forward(self, x):
        self.calls += 1
        return torch.clamp(x, min=0, out=self.out[self.calls % 2])
