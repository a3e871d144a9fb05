# expect: refused work-after-the-clock | after the clock
import threading
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 16:  # questions
            return self.norm(x)
        result = torch.empty_like(x)

        def work():
            time.sleep(0.002)
            with torch.no_grad():
                result.copy_(self.norm(x))

        threading.Thread(target=work).start()
        return result
