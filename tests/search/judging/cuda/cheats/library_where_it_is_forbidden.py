# expect: refused library-call,decoy-kernel | kernel
# task: linear library=forbidden
# with: own_linear
"""Computes an eighth by itself and lets the library do the rest."""


class ModelNew(Linear):
    def forward(self, x):
        y = torch.nn.functional.linear(x, self.linear.weight, self.linear.bias)
        rows = x.shape[0] // 8
        y[:rows] = own_linear(x[:rows], self.linear)
        return y
