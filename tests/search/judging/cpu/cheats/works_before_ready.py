# expect: refused|wrong cached-output
# task: steps
# with: own_steps
import sys


class Early:
    """Stands for the control words, and computes when READY is written."""

    def __init__(self, words, model):
        self.words, self.model = words, model

    def __getitem__(self, key):
        return self.words[key]

    def __setitem__(self, key, value):
        if key == 1:
            self.model.kept = own_steps(self.model.runner._arena.inputs[0])
        self.words[key] = value


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        frame = sys._getframe()
        while "self" not in frame.f_locals or type(frame.f_locals["self"]).__name__ != "Runner":
            frame = frame.f_back
        self.runner = frame.f_locals["self"]
        self.kept = None
        arena = self.runner._arena
        arena.words = Early(arena.words, self)

    def forward(self, x):
        return self.kept if self.kept is not None else own_steps(x)
