import torch
import torch.nn as nn


class Model(nn.Module):
    """Second moments of 96 features over many samples."""

    def forward(self, x):
        return x.T @ x / x.shape[0]


def get_inputs():
    return [torch.randn(8192, 96)]


def get_init_inputs():
    return []
