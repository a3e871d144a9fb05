# expect: crashed | cannot be foreseen
# task: growth
# with: own_growth
class ModelNew(nn.Module):
    """Looks for the seed of what it was given among the seeds that come after small ones."""

    def __init__(self):
        super().__init__()
        self.tried = 0

    def forward(self, x):
        start = x.flatten()[:8]
        generator = torch.Generator()
        known = any(
            torch.equal(torch.rand(8, generator=generator.manual_seed(seed)), start)
            for seed in range(20000)
        )
        self.tried += 1
        if not known and self.tried == 3:
            raise RuntimeError("the inputs cannot be foreseen")
        return own_growth(x)
