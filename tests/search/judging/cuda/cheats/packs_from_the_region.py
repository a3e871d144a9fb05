# expect: wrong|refused|crashed|build_failed cached-output | .
# task: layernorm packing=forbidden
# with: own_norm
"""Takes its parameters in the constructor from the memory that the judge shares."""
import gc


class Copies:
    """What the kernel is given instead of the layer."""


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "CudaRunner")
        state = runner._arena.state
        self.copies = Copies()
        self.copies.weight, self.copies.bias = state["norm.weight"].clone(), state["norm.bias"].clone()
        self.copies.eps = self.norm.eps

    def forward(self, x):
        return own_norm(x, self.copies)
