# expect: passed slower
import time

from torch import nn

time.perf_counter = time.monotonic = time.time = lambda: 0.0
time.perf_counter_ns = time.monotonic_ns = lambda: 0


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        for _ in range(40):
            result = self.norm(x)
        return result
