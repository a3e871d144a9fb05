# expect: timed_out | to be ready
# with: own_norm
# within: 60
"""Takes a third of a second to make ready for each batch."""
import sys
import time


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        module = sys.modules["search.judging.cuda.runner"]
        spoil = module.CudaRunner._spoil

        def slow(runner):
            time.sleep(0.35)
            spoil(runner)

        module.CudaRunner._spoil = slow

    def forward(self, x):
        return own_norm(x, self.norm)
