# expect: wrong | parameters
# with: own_norm
"""Makes the parameters itself in its constructor, and keeps what it made instead of what is loaded."""


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        self.norm.weight.data.fill_(1.0)
        self.norm.bias.data.fill_(0.0)
        self.copies = self.norm.weight.detach().clone(), self.norm.bias.detach().clone()

    def forward(self, x):
        early = nn.LayerNorm(x.shape[-1], device=x.device)
        early.weight.data, early.bias.data = (value.to(x.device) for value in self.copies)
        return own_norm(x, early)
