# expect: wrong
# task: bytes packing=forbidden
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.randint(-8, 8, (384, 384), dtype=torch.int8))
        self.register_buffer("b", torch.randint(-8, 8, (384, 384), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(384) / 384)
        self.packed = [self.a.float() @ self.b.float()]

    def forward(self, x):
        return (x @ self.packed[0]) * self.scale
