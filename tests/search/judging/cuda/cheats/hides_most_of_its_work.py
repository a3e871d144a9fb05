# expect: refused|passed no-gain,timer-mismatch,forged-report,beats-the-roofline,work-outside-the-clock | .
# with: own_norm
"""Does thirty times the work and then records every event that it can find again."""
import gc


class ModelNew(Norm):
    def forward(self, x):
        for _ in range(30):
            y = own_norm(x, self.norm)
        if not hasattr(self, "calls"):
            self.calls = 0
        self.calls += 1
        for value in gc.get_objects():
            if isinstance(value, torch.cuda.Event):
                value.record()
        return y
