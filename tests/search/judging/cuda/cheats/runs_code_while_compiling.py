# expect: crashed|build_failed|wrong | .
# with: own_norm
"""Runs Python of its own while its kernel is compiled, and leaves a file behind there."""


@triton.constexpr_function
def leak():
    open("@FOLDER@/written", "w").write("was here")
    return 1


@triton.jit
def leaking(y):
    tl.store(y, leak())


class ModelNew(Norm):
    def forward(self, x):
        y = torch.empty_like(x)
        leaking[(1,)](y)
        return own_norm(x, self.norm, y)
