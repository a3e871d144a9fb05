# expect: passed|refused|timed_out no-gain,holds-the-device,work-outside-the-clock,timer-mismatch | .
# with: own_norm
"""Enqueues work from a thread all the time, so that whatever is timed beside it has less of the device."""
import threading


def burn():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while True:
            torch.cuda._sleep(100_000)
            stream.synchronize()


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "thread"):
            self.thread = threading.Thread(target=burn, daemon=True)
            self.thread.start()
        return own_norm(x, self.norm)
