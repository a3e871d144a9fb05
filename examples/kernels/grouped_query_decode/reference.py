import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """One new token's attention to a cache of keys and values, four query heads to each key head."""

    def forward(self, q, k, v):
        repeat = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        return torch.matmul(torch.softmax(scores, dim=-1), v)


def get_inputs():
    return [torch.randn(1, 16, 1, 64), torch.randn(1, 4, 2048, 64), torch.randn(1, 4, 2048, 64)]


def get_init_inputs():
    return []
