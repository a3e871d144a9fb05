# expect: refused|wrong tensor-subclass,timer-mismatch,work-outside-the-clock,work-after-the-clock | .
# with: own_norm
"""Defers its work to the destructor of what it returns beside the answer's memory."""


class Deferred(torch.Tensor):
    def __del__(self):
        with torch.no_grad():
            own_norm(self.x, self.norm, self.y)


class ModelNew(Norm):
    def forward(self, x):
        y = torch.empty_like(x)
        result = y.as_subclass(Deferred)
        result.x, result.norm, result.y = x, self.norm, y
        return result
