# expect: crashed|timed_out | shared or pinned memory|still running
# with: own_norm
# within: 30
"""Takes pinned memory of the host, which the limit on its own data does not count."""


class ModelNew(Norm):
    def forward(self, x):
        kept = [torch.empty(1 << 28, pin_memory=True) for _ in range(24)]  # GiB by GiB
        kept[0][0] = 1
        return own_norm(x, self.norm)
