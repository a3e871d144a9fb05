"""C++ and CUDA C++ kernels from Python: the name by which candidates import `kb.runtime`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kb.runtime.cpp import load_cpp, method

__all__ = ["load_cpp", "method"]

# The parts for GPUs are imported when they are first asked for: C++ alone does not need them.
_FOR_GPUS = {
    "load_cuda": "kb.runtime.cuda",
    "CudaModule": "kb.runtime.cuda",
    "tensor_map": "kb.runtime.tma",
    "load_inline_prebuilt": "kb.runtime.torch_inline",
}


def __getattr__(name: str) -> Any:
    if name not in _FOR_GPUS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FOR_GPUS[name]), name)
