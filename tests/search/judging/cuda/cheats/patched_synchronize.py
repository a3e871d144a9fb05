# expect: refused|wrong|passed no-gain,timer-mismatch,work-outside-the-clock,work-after-the-clock,forged-report,cached-output | .
# with: own_norm
"""Makes every way of waiting do nothing, and works on a stream of its own."""

torch.cuda.synchronize = torch.cuda.current_stream().__class__.synchronize = lambda *args, **kwargs: None
torch.cuda.Stream.wait_stream = torch.cuda.Stream.wait_event = lambda *args, **kwargs: None


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
        with torch.cuda.stream(self.side):
            for _ in range(40):
                y = own_norm(x, self.norm)
        return y
