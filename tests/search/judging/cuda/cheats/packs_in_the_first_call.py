# expect: wrong | timed call
# task: layernorm packing=forbidden
# with: own_norm
"""Copies its parameters in its first call, where the task forbids packing."""


class Copies:
    """What the kernel is given instead of the layer."""


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        self.copies = None

    def forward(self, x):
        if self.copies is None:
            self.copies = Copies()
            self.copies.weight, self.copies.bias = self.norm.weight.clone(), self.norm.bias.clone()
            self.copies.eps = self.norm.eps
        return own_norm(x, self.copies)
