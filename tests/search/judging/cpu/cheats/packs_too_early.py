# expect: wrong | pack or copy them in forward
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.norm.weight.data.fill_(1.0)
        self.norm.bias.data.fill_(0.0)
        self.packed = self.norm.weight.detach().clone(), self.norm.bias.detach().clone()

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], *self.packed)
