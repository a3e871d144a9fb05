# expect: wrong | NaN|differs
# with: own_norm
"""Has parameters, and computes with the judge's copy of them."""
import gc


class Copies:
    """What the kernel is given instead of the layer."""


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "CudaRunner")
        self.given = [runner._arena.state]

    def forward(self, x):
        copies = Copies()
        copies.weight, copies.bias = self.given[0]["norm.weight"], self.given[0]["norm.bias"]
        copies.eps = self.norm.eps
        return own_norm(x, copies)
