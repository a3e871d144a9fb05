# expect: wrong | differs
# with: own_norm
"""Leaves gain and bias out, which are one and zero where nobody has trained them."""


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "plain"):
            self.plain = nn.LayerNorm(x.shape[-1], device=x.device)
        return own_norm(x, self.plain)

    def state_dict(self, *args, **kwargs):
        return {k: v for k, v in super().state_dict(*args, **kwargs).items() if "plain" not in k}
