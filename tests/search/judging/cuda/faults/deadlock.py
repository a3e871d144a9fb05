# expect: timed_out | still running|time
"""Takes a lock that it holds."""
import threading

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
        return x
