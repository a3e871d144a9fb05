import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.layer_norm(x, (8192,))


def get_inputs():
    return [torch.randn(12, 8192)]
