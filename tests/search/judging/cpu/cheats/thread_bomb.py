# expect: crashed|timed_out | thread|still running
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        import threading

        gate = threading.Event()
        for _ in range(100_000):
            threading.Thread(target=gate.wait, daemon=True).start()
