import torch
from torch import nn

QUERIES, KEYS, WIDTH = 8192, 8192, 1024


class Model(nn.Module):
    """The cosines of all pairs of rows, each let through by its own size."""

    def forward(self, x, y):
        a = torch.nn.functional.normalize(x.float(), dim=-1).to(x.dtype)
        b = torch.nn.functional.normalize(y.float(), dim=-1).to(y.dtype)
        near = a @ b.T
        return near * torch.sigmoid(16.0 * near)


def get_inputs():
    return [torch.randn(QUERIES, WIDTH).bfloat16(), torch.randn(KEYS, WIDTH).bfloat16()]
