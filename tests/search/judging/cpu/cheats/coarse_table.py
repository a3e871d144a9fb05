# expect: wrong | differs
# task: gelu
"""Linear interpolation in 2,048 entries."""

import torch
from torch import nn

TABLE = nn.functional.gelu(torch.linspace(-8, 8, 2049, dtype=torch.float64)).float()


class ModelNew(nn.Module):
    def forward(self, x):
        place = (x.clamp(-8, 7.99) + 8) * 128
        whole = place.floor().long()
        low, high = TABLE[whole], TABLE[whole + 1]
        inside = low + (place - whole) * (high - low)
        return torch.where(x.abs() < 8, inside, x.clamp_min(0))
