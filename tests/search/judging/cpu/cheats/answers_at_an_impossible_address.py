# expect: refused forged-report | not where it says
"""Says that the answer of a call lies where no memory is."""

import gc

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "Runner")
        words = runner._arena.words

        def point(result):
            words[16] = 2**64 - 1

        runner._point = point

    def forward(self, x):
        return self.norm(x)
