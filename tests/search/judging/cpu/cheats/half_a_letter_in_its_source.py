# expect: build_failed | surrogate
"""Compiles a text that no file can hold."""

from torch import nn

from kb.native import load_cpp

KERNEL = load_cpp('extern "C" void f() {}  // \ud800')


class ModelNew(nn.Module):
    pass
