# expect: wrong | forbids packing
# task: layernorm packing=forbidden
# with: own_norm
"""Copies the parameters in its constructor where the task forbids it."""


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        self.copies = self.norm.weight.detach().clone(), self.norm.bias.detach().clone()

    def forward(self, x):
        early = nn.LayerNorm(x.shape[-1], device=x.device)
        early.weight.data, early.bias.data = (value.to(x.device) for value in self.copies)
        return own_norm(x, early)
