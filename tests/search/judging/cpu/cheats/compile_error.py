# expect: build_failed | line 2, column
from torch import nn

from kb.native import load_cpp

KERNEL = load_cpp(
    """
extern "C" void f() { undeclared = 1; }
"""
)


class ModelNew(nn.Module):
    pass
