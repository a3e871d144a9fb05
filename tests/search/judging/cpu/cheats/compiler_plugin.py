# expect: build_failed | not allowed
from torch import nn

from kb.native import load_cpp

KERNEL = load_cpp('extern "C" void f() {}', "-fplugin=/tmp/evil.so")


class ModelNew(nn.Module):
    pass
