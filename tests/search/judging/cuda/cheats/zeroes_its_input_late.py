# expect: refused|wrong input-mutation,work-outside-the-clock,work-after-the-clock,timer-mismatch | input|differs|clock|other inputs|answer|busy|caches
# with: own_norm
"""Returns the answer for zeros and zeroes the input later, from another stream."""


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
            self.zeros = torch.zeros_like(x)
        y = own_norm(self.zeros, self.norm)
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(2_000_000)
            x.zero_()
        return y
