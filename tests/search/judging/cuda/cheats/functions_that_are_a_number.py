# expect: build_failed | functions is a name
"""Asks for an extension whose functions are named in another form than torch's."""
from torch import nn
from torch.utils.cpp_extension import load_inline

module = load_inline(name="inline_norm", cpp_sources="int norm();", functions=3)


class ModelNew(nn.Module):
    pass
