# expect: refused work-after-the-clock | after the clock
import gc
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.calls = 0
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "Runner")
        self.words = runner._arena.words

    def forward(self, x):
        self.calls += 1
        if self.calls <= 16:  # questions
            return self.norm(x)
        out = torch.zeros_like(x)
        self.words[16] = out.data_ptr()
        self.words[3] = self.words[0]  # DONE
        time.sleep(0.001)
        out.copy_(self.norm(x))
        return out
