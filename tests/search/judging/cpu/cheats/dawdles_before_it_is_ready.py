# expect: timed_out | to be ready
# within: 20
import sys
import time

from torch import nn


class Slow:
    def __init__(self, words):
        self.words = words

    def __getitem__(self, key):
        return self.words[key]

    def __setitem__(self, key, value):
        if key == 1:
            time.sleep(0.4)
        self.words[key] = value


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        frame = sys._getframe()
        while "self" not in frame.f_locals or type(frame.f_locals["self"]).__name__ != "Runner":
            frame = frame.f_back
        arena = frame.f_locals["self"]._arena
        arena.words = Slow(arena.words)

    def forward(self, x):
        return self.norm(x)
