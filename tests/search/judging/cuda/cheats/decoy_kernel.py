# expect: refused decoy-kernel | kernel
# task: linear
# with: own_linear
"""Launches a kernel of its own that changes nothing beside the library's, which does the work."""


class ModelNew(Linear):
    def forward(self, x):
        y = torch.nn.functional.linear(x, self.linear.weight, self.linear.bias)
        nudge[(1,)](y)
        return y
