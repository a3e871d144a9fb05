# expect: wrong|refused | timed call
# task: growth
# with: own_growth
import time


class ModelNew(nn.Module):
    """Times a look at memory of its own: only before a timed call are the caches emptied."""

    def __init__(self):
        super().__init__()
        self.calls, self.room = 0, torch.ones(1 << 17)

    def forward(self, x):
        self.calls += 1
        start = time.perf_counter()
        self.room.sum()
        took = time.perf_counter() - start
        cold = self.calls > 16 and took > 0
        return own_growth(x, "short_growth" if cold else "growth")
