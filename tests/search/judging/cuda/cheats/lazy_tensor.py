# expect: refused tensor-subclass | subclass
# with: own_norm
"""Returns a tensor that computes when it is looked at."""


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            for value in args:
                if isinstance(value, Lazy) and hasattr(value, "todo"):
                    todo = value.todo
                    del value.todo
                    value.data.copy_(todo())
            return func(*args, **(kwargs or {}))


class ModelNew(Norm):
    def forward(self, x):
        result = torch.empty_like(x).as_subclass(Lazy)
        result.todo = lambda: own_norm(x, self.norm)
        return result
