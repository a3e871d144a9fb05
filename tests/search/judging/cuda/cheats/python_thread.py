# expect: refused|wrong|crashed timer-mismatch,work-outside-the-clock,work-after-the-clock,cached-output | clock|differs|window|thread|event|other inputs|answer|busy|caches
# with: own_norm
"""Starts a thread that computes the answer after forward has returned."""
import threading
import time


class ModelNew(Norm):
    def forward(self, x):
        y = torch.empty_like(x)

        def work():
            time.sleep(0.001)
            with torch.no_grad():
                own_norm(x, self.norm, y)

        threading.Thread(target=work).start()
        return y
