# expect: wrong
# task: softmax
import torch
from torch import nn


class ModelNew(nn.Module):
    """Divides zero by zero where a row is far below zero."""

    def forward(self, x):
        terms = torch.exp(x - torch.amax(x, dim=-1, keepdim=True).clamp(min=0.0))
        return terms / terms.sum(dim=-1, keepdim=True)
