# expect: crashed|refused|build_failed no-own-kernel | no reference here|kernel
"""Looks for the reference among the modules and objects of its process."""
import gc
import sys

import torch
from torch import nn


def reference():
    for name, module in list(sys.modules.items()):
        if name.startswith("kb_reference") and hasattr(module, "Model"):
            return module.Model
    for value in gc.get_objects():
        if isinstance(value, type) and value.__name__ == "Model" and issubclass(value, nn.Module):
            return value
    return None


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        found = reference()
        if found is None:
            raise RuntimeError("no reference here")
        model = found(x.shape[-1]).to(x.device)
        model.load_state_dict(self.state_dict())
        return model(x)
