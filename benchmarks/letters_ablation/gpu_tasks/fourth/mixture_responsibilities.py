import math

import torch
from torch import nn

POINTS, PARTS, FEATURES = 16384, 64, 64


class Model(nn.Module):
    """How much each Gaussian of a mixture with full covariances is responsible for each point."""

    def __init__(self, parts: int, features: int) -> None:
        super().__init__()
        self.means = nn.Parameter(torch.randn(parts, features))
        # Cholesky factors of the inverse covariances.
        self.factors = nn.Parameter(torch.randn(parts, features, features).tril() / features**0.5)
        self.logits = nn.Parameter(torch.randn(parts))

    def forward(self, x):
        offset = torch.einsum("nd,kde->nke", x, self.factors) - torch.einsum(
            "kd,kde->ke", self.means, self.factors
        )
        scale = torch.log(torch.diagonal(self.factors, dim1=-2, dim2=-1).abs() + 1e-3).sum(-1)
        log_density = scale - 0.5 * ((offset**2).sum(-1) + x.shape[1] * math.log(2 * math.pi))
        return torch.softmax(log_density + torch.log_softmax(self.logits, 0), dim=-1)


def get_inputs():
    return [torch.randn(POINTS, FEATURES)]


def get_init_inputs():
    return [PARTS, FEATURES]
