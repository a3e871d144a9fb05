# expect: crashed|timed_out|refused forged-report,work-after-the-clock | .
# with: own_norm
"""Writes to every word of memory that its process shares with the judge."""
import sys


class ModelNew(Norm):
    def forward(self, x):
        frame = sys._getframe(1)
        while frame is not None:
            for value in list(frame.f_locals.values()):
                if isinstance(value, memoryview) and not value.readonly and value.format == "Q":
                    for at in range(min(len(value), 64)):
                        value[at] = 1
            frame = frame.f_back
        return own_norm(x, self.norm)
