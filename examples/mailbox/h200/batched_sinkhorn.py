import math

import torch
from torch import nn


class Model(nn.Module):
    """Soft assignment between sets of descriptors: Sinkhorn's iteration in logarithms, with dustbins.

    As feature matchers end: a row and a column of one learned score take what has no partner.
    """

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.bin = nn.Parameter(torch.tensor(1.0))

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        batch, m, n = scores.shape
        beside = self.bin.expand(batch, m, 1)
        below = self.bin.expand(batch, 1, n + 1)
        scores = torch.cat([torch.cat([scores, beside], dim=2), below], dim=1)
        norm = -math.log(m + n)
        rows = scores.new_full((m + 1,), norm)
        rows[-1] += math.log(n)
        columns = scores.new_full((n + 1,), norm)
        columns[-1] += math.log(m)
        u = scores.new_zeros(batch, m + 1)
        v = scores.new_zeros(batch, n + 1)
        for _ in range(self.rounds):
            u = rows - torch.logsumexp(scores + v.unsqueeze(1), dim=2)
            v = columns - torch.logsumexp(scores + u.unsqueeze(2), dim=1)
        return scores + u.unsqueeze(2) + v.unsqueeze(1) - norm


def get_inputs():
    return [torch.randn(256, 190, 187)]


def get_init_inputs():
    return [12]
