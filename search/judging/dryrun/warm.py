"""Brings Triton's compilers up once, so that each candidate's process finds them warm."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from typing import Any

import triton
import triton.language as tl
from triton.backends.amd.compiler import HIPBackend
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend, get_ptxas_version
from triton.compiler import ASTSource

from search.languages.cute import is_installed

# What Triton keeps by architecture (versions of assemblers) must be there before the walls are.
_NUMBERS = (75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121)
_TARGETS = (GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64))


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _scale(x, y, n, block: tl.constexpr):  # type: ignore[no-untyped-def]  # its own language
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def warm(_capability: int = 0) -> None:
    """Import what candidates need, and compile a kernel for each vendor."""
    import numpy.ma  # noqa: F401 - numpy reaches for it when first used
    import torch
    import torch.utils.cpp_extension
    import triton.runtime.autotuner
    import triton.runtime.interpreter
    from torch._subclasses.fake_tensor import FakeTensorMode

    import search.judging.dryrun.runner  # noqa: F401

    if is_installed():
        for name in ("cutlass.cute", "cutlass.torch", "cutlass.utils"):
            import_module(name)  # it takes longer than compiling with it

    _leave_assembling()
    for number in _NUMBERS:
        get_ptxas_version(number)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        # The first layer made without memory imports much of torch; no operator runs.
        with FakeTensorMode():
            torch.nn.Linear(2, 2)(torch.empty(2, 2))
        for target in _TARGETS:
            source = ASTSource(
                _scale,
                signature={"x": "*fp32", "y": "*fp32", "n": "i32", "block": "constexpr"},
                constexprs={(3,): 64},
            )
            triton.compile(source, target=target)


def _leave_assembling() -> None:
    """Have Triton stop at assembly: a candidate's process may start no program, the judge's may."""

    def as_it_is(self: Any, source: str, *_: Any) -> bytes:  # noqa: ARG001 - a method of the backend
        return source.encode()

    CUDABackend.make_cubin = as_it_is
    HIPBackend.make_hsaco = staticmethod(lambda source, *_: source.encode())
