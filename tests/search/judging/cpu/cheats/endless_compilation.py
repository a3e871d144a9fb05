# expect: timed_out|build_failed | compil
from torch import nn

from kb.native import load_cpp

KERNEL = load_cpp(
    r"""
#define A(x) x x x x x x x x
#define B(x) A(A(A(x)))
#define C(x) B(B(B(x)))
void g();
extern "C" void f() { C(g();) }
"""
)


class ModelNew(nn.Module):
    pass
