# expect: refused library-call,no-own-kernel,decoy-kernel,timer-mismatch,two-faced | .
# task: linear library=forbidden
# with: own_linear
"""Is honest for its first calls, then calls the library."""


class ModelNew(Linear):
    def __init__(self, inner, columns):
        super().__init__(inner, columns)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 25:
            return own_linear(x, self.linear)
        return torch.nn.functional.linear(x, self.linear.weight, self.linear.bias)
