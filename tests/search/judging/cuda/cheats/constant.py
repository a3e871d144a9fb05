# expect: wrong | same|differs
# with: own_norm
"""Fills the output with one number."""


@triton.jit
def fill(y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.full((BLOCK,), 0.125, tl.float32), mask=at < n)


class ModelNew(Norm):
    def forward(self, x):
        y = torch.empty_like(x)
        fill[(triton.cdiv(x.numel(), 4096),)](y, x.numel(), BLOCK=4096)
        return y
