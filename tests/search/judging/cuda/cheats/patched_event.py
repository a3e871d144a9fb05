# expect: refused|passed no-gain,timer-mismatch,forged-report,beats-the-roofline | .
# with: own_norm
"""Makes the framework's events tell next to nothing, in the class itself and under its name."""
original = torch.cuda.Event
original.elapsed_time = lambda self, other: 1e-4


class Event(original):
    pass


torch.cuda.Event = torch.cuda.streams.Event = Event


class ModelNew(Norm):
    def forward(self, x):
        for _ in range(40):
            y = own_norm(x, self.norm)
        return y
