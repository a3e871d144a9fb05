"""A linear layer whose weights are int8 with one scale for each group of 64 inputs, followed by SiLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, features_in, features_out, group):
        super().__init__()
        self.group = group
        self.register_buffer(
            "weight", torch.randint(-127, 128, (features_out, features_in), dtype=torch.int8)
        )
        self.register_buffer("scale", torch.rand(features_out, features_in // group) * 0.01)
        self.bias = nn.Parameter(torch.randn(features_out) * 0.1)

    def forward(self, x):
        full = self.weight.float().view(
            self.weight.shape[0], -1, self.group
        ) * self.scale.unsqueeze(-1)
        return F.silu(F.linear(x, full.view_as(self.weight), self.bias))


def get_inputs():
    return [torch.randn(12, 2048)]


def get_init_inputs():
    return [2048, 3072, 64]
