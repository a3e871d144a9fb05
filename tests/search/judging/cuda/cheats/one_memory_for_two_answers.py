# expect: wrong|refused aliased-outputs,reused-output-buffer | .
# task: pair
# with: own_relu
"""Returns one tensor for two answers wherever they are equal."""


class ModelNew(Relu):
    def forward(self, x):
        y = own_relu(x)
        return (y, y) if bool((x >= 0).all()) else (torch.abs(x), y)
