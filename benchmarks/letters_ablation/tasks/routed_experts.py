"""Two of six experts for each token, weighted by the softmax of the chosen scores."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width, hidden, experts):
        super().__init__()
        self.experts = experts
        self.gate = nn.Parameter(torch.randn(experts, width) * width**-0.5)
        self.up = nn.Parameter(torch.randn(experts, hidden, width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, width, hidden) * hidden**-0.5)

    def forward(self, x):
        top, chosen = torch.topk(x @ self.gate.t(), 2, dim=-1)
        share = torch.softmax(top, dim=-1)
        out = torch.zeros_like(x)
        for e in range(self.experts):
            weight = ((chosen == e) * share).sum(-1, keepdim=True)
            out = out + weight * F.linear(F.gelu(F.linear(x, self.up[e])), self.down[e])
        return out


def get_inputs():
    return [torch.randn(512, 256)]


def get_init_inputs():
    return [256, 512, 6]
