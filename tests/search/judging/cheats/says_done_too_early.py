# expect: refused work-after-the-clock | after the clock
import torch
import torch.nn as nn
import torch.nn.functional as F

import gc
import time


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "Runner")
        self.words = runner._arena.words

    def forward(self, x):
        if self.words[0] and self.words[0] == self.words[2]:  # a timed call
            self.words[3] = self.words[0]  # DONE
            time.sleep(0.001)
        return self.norm(x)
