# expect: crashed|timed_out | .
"""Fills the memory of the machine."""
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        kept = []
        while True:
            kept.append(bytearray(b"x" * (64 << 20)))
