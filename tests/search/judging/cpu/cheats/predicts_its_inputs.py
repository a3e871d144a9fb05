# expect: crashed | cannot be foreseen
import torch
from torch import nn


def drawn_from(x):
    start = x.flatten()[:16].clone()
    near = {torch.initial_seed(), 0, 5, 42, 1337}
    near |= {
        seed + step * n
        for seed in list(near)
        for step in (1, 7919, 1_000_003)
        for n in range(1, 40)
    }
    generator = torch.Generator()
    for seed in sorted(near):
        if torch.equal(torch.rand(16, generator=generator.manual_seed(seed)), start):
            return seed
    return None


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.tried = 0

    def forward(self, x):
        if drawn_from(x) is not None:
            self.tried = -1 << 40  # who knows the seed knows every input to come
        self.tried += 1
        if self.tried == 3:
            raise RuntimeError("the inputs cannot be foreseen")
        return self.norm(x)
