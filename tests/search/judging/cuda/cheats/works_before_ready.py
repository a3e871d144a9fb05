# expect: refused|wrong|crashed cached-output,timer-mismatch,work-after-the-clock,work-outside-the-clock,reused-output-buffer | .
# with: own_norm
"""Computes the answers to all inputs that are in place when its process makes ready for a batch."""
import sys

ready = {}


def early(model, pair):
    def made():
        arena = model.arena
        if arena is not None and model.due:
            model.due = False
            with torch.no_grad():
                for row in arena.sets:
                    ready[row[0].data_ptr()] = own_norm(row[0], model.norm)
            torch.cuda.synchronize()
        return pair()

    return made


class ModelNew(Norm):
    def __init__(self, columns):
        super().__init__(columns)
        self.arena, self.due, self.calls = None, False, 0

    def forward(self, x):
        self.calls += 1
        if self.arena is None and self.calls > 25:
            frame = sys._getframe(1)
            while frame is not None and self.arena is None:
                owner = frame.f_locals.get("self")
                self.arena = getattr(owner, "_device_arena", None)
                frame = frame.f_back
            module = sys.modules["search.judging.cuda.runner"]
            module._pair = early(self, module._pair)
        self.due = True
        return ready.pop(x.data_ptr()) if x.data_ptr() in ready else own_norm(x, self.norm)
