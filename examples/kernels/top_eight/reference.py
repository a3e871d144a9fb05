import torch
import torch.nn as nn


class Model(nn.Module):
    """The eight largest values of each row as weights: the gate of a mixture of experts, or beam search."""

    def forward(self, x):
        return torch.softmax(torch.topk(x, 8, dim=-1).values, dim=-1)


def get_inputs():
    return [torch.randn(1024, 4096)]


def get_init_inputs():
    return []
