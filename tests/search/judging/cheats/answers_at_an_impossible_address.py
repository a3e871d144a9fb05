# expect: refused|timed_out forged-report
"""Says that the answer of a timed call lies where no memory is."""

import gc

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "Runner")
        self.words = runner._arena.words

    def forward(self, x):
        if gc.isenabled():  # not in the timed loop
            return self.norm(x)
        self.words[16] = 2**64 - 1
        self.words[3] = self.words[0]  # DONE
        while True:
            pass
