"""Stands in for compiled CUDA C++ in a candidate's process: launches are noted, nothing runs."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, Protocol

import kb.runtime.cuda
import kb.runtime.tma
import kb.runtime.torch_inline
from search.judging.dryrun.interpreter.memory import KernelFault


class Noter(Protocol):
    """Takes note of launches."""

    def note_native(self, name: str, grid: Any, threads: int, shared: int) -> None:
        """Note one launch of a kernel in CUDA C++."""
        ...


class AbsentModule:
    """What ``load_cuda`` returns where there is no device."""

    def __init__(self, noter: Noter) -> None:
        self._noter = noter

    def __getattr__(self, name: str) -> AbsentKernel:
        if name.startswith("__"):
            raise AttributeError(name)
        return AbsentKernel(self._noter, name)

    def __getitem__(self, name: str) -> AbsentKernel:
        return AbsentKernel(self._noter, name)


class AbsentKernel:
    """A kernel that can be launched and does nothing."""

    # What a program may ask before it chooses a grid; the real figures are the compiler's.
    resources = types.MappingProxyType(
        {"registers": 64, "local_bytes": 0, "shared_bytes": 0, "max_threads": 1024}
    )

    def __init__(self, noter: Noter, name: str) -> None:
        self._noter = noter
        self._name = name

    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *args: Any,  # noqa: ARG002 - nothing is computed
        shared: int = 0,
        cluster: Any = None,  # noqa: ARG002
        cooperative: bool = False,  # noqa: ARG002
        overlap: bool = False,  # noqa: ARG002
    ) -> None:
        """Note the launch."""
        sizes = (block,) if isinstance(block, int) else tuple(block)
        threads = 1
        for size in sizes:
            threads *= int(size)
        self._noter.note_native(self._name, grid, threads, int(shared))

    def resident_blocks(self, block: int, shared: int = 0) -> int:  # noqa: ARG002 - as `CudaKernel`
        """Return how many blocks a unit holds: one, whatever they need."""
        return 1


def stand_in(noter: Noter) -> None:
    """Put the stand-ins in place of what loads machine code, in this process for good."""

    def load_cuda(source: str, flags: str = "") -> AbsentModule:  # noqa: ARG001 - built elsewhere
        return AbsentModule(noter)

    def load_inline(*_: Any, **__: Any) -> Any:
        return _Extension()

    kb.runtime.cuda.load_cuda = load_cuda  # type: ignore[assignment]
    kb.runtime.torch_inline.load_inline_prebuilt = load_inline
    kb.runtime.tma.tensor_map = lambda *_, **__: None  # type: ignore[assignment]
    import torch.utils.cpp_extension

    torch.utils.cpp_extension.load_inline = load_inline


class _Extension:
    """What ``load_inline`` returns: its functions are compiled, and cannot be called here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*_: Any, **__: Any) -> Any:
            raise KernelFault("native", f"{name} of a C++ extension runs on a device only")

        return call
