# expect: refused tensor-subclass | subclass
import torch
from torch import nn


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


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        result = torch.empty_like(x).as_subclass(Lazy)
        result.todo = lambda: self.norm(x)
        return result
