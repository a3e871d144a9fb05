# task: long_product precision=1e-7:0
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return x @ y
