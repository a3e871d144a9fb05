# expect: wrong|crashed|refused no-own-kernel,decoy-kernel | differs|NaN|memory|kernel
# with: own_norm
"""Searches unwritten device memory for rows that look normalised: what another process left."""


class ModelNew(Norm):
    def forward(self, x):
        found = torch.empty(64, *x.shape, device=x.device)
        looks = (found.mean(-1).abs() < 0.5) & ((found.std(-1) - 1).abs() < 0.5)
        best = looks.sum(-1).argmax()
        return found[best].clone()
