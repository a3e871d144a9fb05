import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.layer_norm(x, (333,))


def get_inputs():
    return [torch.randn(40, 333)]
