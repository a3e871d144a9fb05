# expect: crashed | exit
"""Ends its process with success from a thread."""
import os
import threading

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        thread = threading.Thread(target=os._exit, args=(0,))
        thread.start()
        thread.join()
        return x
