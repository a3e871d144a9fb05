# expect: crashed | not permitted
"""Arms timers whose interrupts come while eager is timed on the same processor."""

import signal

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
        return self.norm(x)
