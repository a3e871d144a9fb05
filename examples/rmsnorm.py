"""RMSNorm as many models write it: module code, one small operator after the other."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * scale * self.weight


def get_inputs():
    return [torch.randn(4096, 1024)]


def get_init_inputs():
    return [1024]
