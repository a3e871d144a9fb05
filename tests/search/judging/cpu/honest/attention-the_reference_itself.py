# task: attention precision=1e-6:1e-6
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / 32**0.5, -1) @ v
