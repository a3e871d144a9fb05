# expect: build_failed | SECRET|secret|ermission
from torch import nn

from kb.native import load_cpp

KERNEL = load_cpp(r"""
#include "@SECRET_FILE@"
extern "C" void f() {}
""")


class ModelNew(nn.Module):
    pass
