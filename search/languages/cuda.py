"""CUDA C++, written for `kb.native.load_cuda` or for torch's `load_inline`."""

from __future__ import annotations

from search.languages.native_parts import NativeParts


class Cuda(NativeParts):
    """Compiles CUDA C++ for one architecture before the candidate is loaded."""
