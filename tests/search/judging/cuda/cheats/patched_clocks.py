# expect: refused|passed no-gain,timer-mismatch,forged-report | .
# with: own_norm
"""Stops every clock of Python."""
import time

time.perf_counter = time.monotonic = time.time = lambda: 0.0
time.perf_counter_ns = time.monotonic_ns = time.time_ns = lambda: 0


class ModelNew(Norm):
    def forward(self, x):
        for _ in range(40):
            y = own_norm(x, self.norm)
        return y
