# expect: wrong | differs
# task: linear
# with: own_linear
"""Lets the library compute in tf32, beside a kernel of its own."""

torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision("medium")


class ModelNew(Linear):
    def forward(self, x):
        y = torch.nn.functional.linear(x, self.linear.weight, self.linear.bias)
        nudge[(1,)](y)
        return y
