# expect: crashed | cannot be foreseen
# with: own_norm
"""Looks for the seeds of the numbers by which the inputs of two timed calls differ."""


def factor(seed, like):
    generator = torch.Generator(like.device).manual_seed(seed)
    return torch.empty_like(like).uniform_(0.8, 1.0, generator=generator).flatten()[:64]


def foreseen(one, other):
    ratio = other.flatten()[:64] / one.flatten()[:64]
    if not torch.isfinite(ratio).all() or (ratio - 1).abs().max() > 0.3:
        return False
    for start in (0, 1, 5, 42, torch.initial_seed() % (1 << 32)):
        for session in range(1, 40):
            for block in range(14):
                seed = ((start * 1_000_003 + session) * 64 + block) * 400
                told = factor(seed + 1, one) / factor(seed, one)
                if torch.allclose(told, ratio, rtol=1e-4):
                    return True
    return False


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        self.calls, self.last, self.known = 0, None, False

    def forward(self, x):
        self.calls += 1
        if 30 <= self.calls <= 32 and not self.known:
            self.known = foreseen(self.last, x)
            if self.calls == 32 and not self.known:
                raise RuntimeError("the inputs cannot be foreseen")
        self.last = x
        return own_norm(x, self.norm)
