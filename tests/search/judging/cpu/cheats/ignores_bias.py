# expect: wrong | differs
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.norm.weight, None)
