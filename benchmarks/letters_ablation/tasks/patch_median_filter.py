import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        p = F.pad(x, (1, 1, 1, 1), mode="reflect")
        s = torch.stack([p[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)], dim=-1)
        return x - s.sort(dim=-1).values[..., 4]


def get_inputs():
    return [torch.randn(2, 3, 320, 320)]
