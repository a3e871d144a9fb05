"""What a candidate's process compiled to machine code by itself: read here, believed as far as it can be."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from search.judging.dryrun.architecture import Architecture
from search.judging.dryrun.nvcc import figures, launch_figures
from search.languages.cute import own_kernel
from search.outcome import BuildFailed, Kernel
from search.profilers.static_resources import Resources, parse_cubin
from search.sandbox.faults import Fault, forged

_LONGEST = 64 << 20  # bytes of machine code that one function may have
_MOST = 64


def cute_kernels(
    launches: Any, scratch: Path, names: Collection[str], architecture: Architecture
) -> tuple[Kernel, ...]:
    """Return what the launched kernels of a candidate in CuTe DSL need.

    Args:
        launches: what its process told; those without machine code of their own are passed over.
        scratch: the folder that its process writes to.
        names: of the kernels in its source; others are not its own.

    Raises:
        Fault: what was told cannot be, or a kernel does not fit the device.
    """
    read: dict[str, dict[str, Resources]] = {}
    made = []
    for told in launches[:_MOST] if isinstance(launches, list) else ():
        if not isinstance(told, Mapping) or not told.get("file"):
            continue
        threads, shared, count = launch_figures(told)
        symbol, file = str(told["name"]), Path(str(told["file"])).name
        name = own_kernel(symbol, names)
        if name is None:
            continue
        if file not in read:
            read[file] = {one.name: one for one in _read(scratch / file)}
        if symbol not in read[file]:
            raise forged(f"no kernel {symbol[:80]} in the machine code that it told of")
        kernel = figures(read[file][symbol], architecture, threads, shared, count)
        made.append(replace(kernel, name=name))
        _require_room(made[-1], threads, architecture)
    return tuple(made)


def _require_room(kernel: Kernel, threads: int, architecture: Architecture) -> None:
    most = architecture.limits.get("threads_per_block", 1024)
    if kernel.shared > architecture.shared:
        told = (
            f"{kernel.shared} bytes of shared memory, {architecture.name} has {architecture.shared}"
        )
    elif threads > most:
        told = f"{threads} threads, {architecture.name} has {most}"
    else:
        return
    raise Fault(BuildFailed(reason=f"kernel {kernel.name} does not fit: a block asks for {told}"))


def _read(path: Path) -> tuple[Resources, ...]:
    """Read a file that a candidate's process wrote, as if it had written it to mislead."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            return parse_cubin(file.read(_LONGEST))
    except (OSError, ValueError, struct.error) as error:
        raise forged(f"no machine code in {path.name[:80]}: {error}") from error
