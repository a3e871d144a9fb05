"""CUDA C++ for a GPU that is not here: compiled by nvcc, its figures read, its launches only counted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from search.judging.dryrun.architecture import Architecture
from search.languages import LANGUAGES, Unbuildable
from search.languages.cute import imports_cute
from search.languages.native_parts import NativeParts
from search.outcome import BuildFailed, Kernel
from search.profilers.static_resources import Resources, occupancy, parse_ptxas
from search.sandbox.build import Builder
from search.sandbox.faults import Fault, forged
from search.sandbox.zygote import Zygote

_USUAL = 256  # threads of a block where nothing says how many


class NativeBuilds:
    """Compiles the CUDA C++ of candidates, once for each content and architecture."""

    def __init__(self, zygote: Zygote, folder: Path, seconds: float) -> None:
        self._zygote = zygote
        self._folder = folder
        self._seconds = seconds

    def needed(self, source: str) -> bool:
        """Say whether a candidate has parts in CUDA C++.

        Raises:
            Fault: it asks for something that cannot be built.
        """
        try:
            return bool(NativeParts("sm_90").units(source))
        except Unbuildable as error:
            raise Fault(BuildFailed(reason=str(error))) from error

    def build(self, source: str, architecture: Architecture) -> tuple[Resources, ...]:
        """Compile every native part for `architecture` and return the figures of its kernels.

        Raises:
            Fault: a part does not compile, or not for this vendor.
        """
        if architecture.backend != "cuda":
            raise Fault(
                BuildFailed(
                    reason=f"for {architecture.name}: CUDA C++ is compiled for NVIDIA's devices only: "
                    "write it in triton"
                )
            )
        name = "cute" if imports_cute(source) else "cuda"
        language = LANGUAGES.create(name, architecture.name)
        builder = Builder(self._zygote, language, self._folder, self._seconds)
        logs = builder.remarks(source).values()
        return tuple(kernel for log in logs for kernel in parse_ptxas(log))


def native_kernels(
    found: Sequence[Resources], launches: Any, architecture: Architecture
) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    """Join what the compiler said with what a candidate's process told of its launches.

    Returns:
        The kernels that were launched, each with its block; all of them, with a note, where no
        launch was seen. What came with machine code of its own is told by `search.judging.dryrun.cubins`.

    Raises:
        Fault: what was told cannot be.
    """
    if not isinstance(launches, list):
        raise forged("no list of launches")
    launches = [told for told in launches if not (isinstance(told, Mapping) and told.get("file"))]
    if not launches:
        kernels = tuple(figures(one, architecture, _USUAL, 0, 1) for one in found)
        note = f"launches were not seen: occupancy is that of blocks of {_USUAL} threads"
        return kernels, ((note,) if kernels else ())
    made = []
    for told in launches[:64]:
        threads, shared, count = launch_figures(told)
        one = next((one for one in found if _is(one.name, str(told["name"]))), None)
        if one is None:
            reason = f"its sources have no kernel {str(told['name'])[:80]!r}"
            raise Fault(BuildFailed(reason=reason))
        made.append(figures(one, architecture, threads, shared, count))
    return tuple(made), ()


def launch_figures(told: Any) -> tuple[int, int, int]:
    """Return the threads, the bytes of dynamic shared memory and the count of a launch.

    Raises:
        Fault: what was told cannot be.
    """
    if not isinstance(told, Mapping) or not isinstance(told.get("name"), str):
        raise forged(f"a launch without its figures: {str(told)[:200]}")
    figures = [told.get(key) for key in ("threads", "shared", "launches")]
    if any(type(value) is not int or value < 0 for value in figures):
        raise forged(f"a launch with impossible figures: {str(told)[:200]}")
    threads, shared, count = (int(value) for value in figures if value is not None)
    return max(threads, 1), shared, max(count, 1)


def figures(
    found: Resources, architecture: Architecture, threads: int, dynamic: int, launches: int
) -> Kernel:
    """Return what a kernel needs of a device; `dynamic`: bytes of shared memory by its launch."""
    shared = found.shared + dynamic
    held = occupancy(architecture.limits, found.registers, shared, threads)
    return Kernel(
        name=_plain(found.name),
        architecture=architecture.name,
        registers=found.registers,
        shared=shared,
        spills=found.spill_bytes,
        stack=found.stack,
        warps=-(-threads // architecture.warp),
        occupancy=held.fraction,
        limited_by=tuple(held.limited_by),
        launches=launches,
        losses=found.losses,
    )


def _is(real: str, name: str) -> bool:
    return real == name or bool(re.match(rf"_Z(?:N\w*?)?(?<!\d){len(name)}{re.escape(name)}", real))


def _plain(real: str) -> str:
    """Return a kernel's own name out of its mangled one (the Itanium C++ ABI: length, then name)."""
    matched = re.match(r"_Z(\d+)", real)
    if matched is None:
        return real[:100]
    start = matched.end()
    return real[start : start + int(matched[1])][:100]
