# expect: refused|timed_out|wrong work-outside-the-clock,timer-mismatch,work-after-the-clock,device-held,holds-the-device | clock|window|device|still|busy|other inputs|answer|caches
# with: own_norm
"""Leaves a long kernel behind on another stream, so that what is timed next has less of the device."""


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
        y = own_norm(x, self.norm)
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(8_000_000)
        return y
