# expect: wrong|refused | timed call
# task: linear packing=forbidden
import torch
from torch import nn


class ModelNew(nn.Module):
    """Trusts the counter by which torch tells that memory was written to."""

    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)
        self.packed, self.version = None, -1

    def forward(self, x):
        if self.version != self.linear.weight._version:
            self.version = self.linear.weight._version
            self.packed = self.linear.weight.t().contiguous(), self.linear.bias.clone()
        return torch.addmm(self.packed[1], x, self.packed[0]).relu_()
