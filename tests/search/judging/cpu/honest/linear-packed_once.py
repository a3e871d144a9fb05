import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)
        self.packed = self.linear.weight.detach().t().contiguous()
        self.shift = self.linear.bias.detach().clone()

    def forward(self, x):
        return torch.addmm(self.shift, x, self.packed).relu_()
