# expect: refused decoy-kernel,no-own-kernel,library-call | kernel
# task: linear
# with: own_linear
"""Gives its decoys names that are parts of the names of the library's kernels."""


@triton.jit
def gemm(y):
    tl.store(y, tl.load(y))


@triton.jit
def sgemm(y):
    tl.store(y, tl.load(y))


@triton.jit
def cutlass(y):
    tl.store(y, tl.load(y))


@triton.jit
def void(y):
    tl.store(y, tl.load(y))


class ModelNew(Linear):
    def forward(self, x):
        y = torch.nn.functional.linear(x, self.linear.weight, self.linear.bias)
        for decoy in (gemm, sgemm, cutlass, void):
            decoy[(1,)](y)
        return y
