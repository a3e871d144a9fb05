# task: rectified special_values=true
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clamp_min(0) + x
