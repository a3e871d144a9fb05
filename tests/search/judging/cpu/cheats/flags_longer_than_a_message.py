# expect: build_failed | flags of \d+ characters
"""Asks for more flags than one message to the process that starts compilers can hold."""

from torch import nn

from kb.native import load_cpp

A = "-DA=0123456789012345678901234567890123456789012345678901234567890 "
B = A + A + A + A + A + A + A + A + A + A + A + A + A
C = B + B + B + B + B + B + B + B + B + B + B + B + B
D = C + C + C + C + C + C + C + C + C + C + C + C + C
KERNEL = load_cpp('extern "C" void f() {}', D)


class ModelNew(nn.Module):
    pass
