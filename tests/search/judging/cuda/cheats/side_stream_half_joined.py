# expect: refused|wrong|passed no-gain,timer-mismatch,work-outside-the-clock,work-after-the-clock,cached-output | clock|stream|window|differs|event|other inputs|answer|busy|caches
# with: own_norm
"""Joins one of its two streams and not the other, which works longer."""


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "sides"):
            self.sides = torch.cuda.Stream(), torch.cuda.Stream()
        now, y = torch.cuda.current_stream(), torch.empty_like(x)
        half = x.shape[0] // 2
        for side, rows, times in zip(self.sides, (slice(None, half), slice(half, None)), (5, 50)):
            side.wait_stream(now)
            with torch.cuda.stream(side):
                for _ in range(times):
                    own_norm(x[rows], self.norm, y[rows])
        now.wait_stream(self.sides[0])
        return y
