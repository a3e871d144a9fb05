# expect: wrong|refused | timed call
# task: linear packing=forbidden
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.linear.weight.t().contiguous(), self.linear.bias.clone()
        return torch.addmm(self.packed[1], x, self.packed[0]).relu_()
