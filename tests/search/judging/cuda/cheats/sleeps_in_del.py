# expect: passed|refused|timed_out no-gain,work-after-the-clock | .
# within: 60
# with: own_norm
"""Leaves objects behind that sleep when they are collected: the judge must not wait for them."""
import time


class Sleeper:
    def __del__(self):
        time.sleep(1000)


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        self.keep = Sleeper()

    def __del__(self):
        time.sleep(1000)

    def forward(self, x):
        for _ in range(40):
            y = own_norm(x, self.norm)
        return y
