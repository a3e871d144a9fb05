import torch
from torch import nn

CHUNKS, LENGTH, WIDTH = 4096, 64, 64


class Model(nn.Module):
    """The delta rule within each chunk: each step writes only what its key did not already recall, and queries read."""

    def forward(self, q, k, v, rate):
        k = torch.nn.functional.normalize(k.float(), dim=-1).to(k.dtype)
        rate = torch.sigmoid(rate.float())[..., None]
        power = (-rate * (k @ k.transpose(-1, -2)).float()).tril(-1).to(k.dtype)
        written = (rate * v.float()).to(v.dtype)
        # The inverse of a unit lower triangle, as a product of its doubling powers.
        reach = 1
        while reach < q.shape[-2]:
            written = written + power @ written
            power = power @ power
            reach *= 2
        return (q @ k.transpose(-1, -2)).tril() @ written


def get_inputs():
    q, k, v = (torch.randn(CHUNKS, LENGTH, WIDTH).bfloat16() for _ in range(3))
    return [q, k, v, torch.randn(CHUNKS, LENGTH).bfloat16()]


def get_init_inputs():
    return []
