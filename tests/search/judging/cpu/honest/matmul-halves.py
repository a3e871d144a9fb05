# task: matmul precision=half
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        near = x.clamp(-65504, 65504).half().float()
        return near @ near.T
