"""Assembles what Triton generated, in a sandbox, and reads what the kernel needs of its device."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kb.errors import ToolchainError
from search.judging.dryrun.architecture import Architecture
from search.outcome import BuildFailed, Kernel, TimedOut
from search.profilers.static_resources import Resources, occupancy, parse_amd, parse_ptxas
from search.sandbox.faults import Fault, forged
from search.sandbox.sandbox import Cell
from search.sandbox.zygote import Child, Zygote

_MEMORY = 4 << 30
_FILE = 256 << 20
_TRITON = "3.6."
_LONGEST = 32 << 20  # bytes of assembly that one kernel may have


class Assembler:
    """Turns assembly into figures.

    Args:
        seconds: that assembling one kernel may take.
    """

    def __init__(self, zygote: Zygote, folder: Path, seconds: float) -> None:
        self._zygote = zygote
        self._folder = folder
        self._seconds = seconds

    def begin(self, architecture: Architecture, told: Mapping[str, Any], scratch: Path) -> Assembly:
        """Start with one kernel that a candidate's process told of; `Assembly.finish` ends it.

        Args:
            told: ``name``, ``file`` in `scratch`, ``shared``, ``warps``, ``fused``, ``launches``.

        Raises:
            Fault: what was told cannot be.
        """
        text = _read(scratch, told)
        if architecture.backend == "hip":
            found = parse_amd(text)
            if len(found) != 1:
                raise forged("assembly with no kernel")
            return Assembly(architecture, told, found[0])
        self._folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="ptx-", dir=self._folder))
        (folder / "kernel.ptx").write_text(text, encoding="utf-8", errors="surrogateescape")
        cell = Cell(
            single=False,
            readable=(),
            writable=(str(folder),),
            memory=_MEMORY,
            cpu_seconds=int(self._seconds) + 5,
            file_bytes=_FILE,
        )
        suffix = "a" if architecture.capability >= 90 else ""
        command = [
            str(ptxas(architecture)),
            "-v",
            *([] if told["fused"] else ["--fmad=false"]),
            f"--gpu-name=sm_{architecture.capability}{suffix}",
            "kernel.ptx",
            "-o",
            "kernel.cubin",
        ]
        request = {"op": "build", "cell": asdict(cell), "command": command, "folder": str(folder)}
        child = Child(self._zygote, request, [])
        return Assembly(architecture, told, None, child, folder, self._seconds)


class Assembly:
    """A kernel that is being assembled."""

    def __init__(
        self,
        architecture: Architecture,
        told: Mapping[str, Any],
        resources: Resources | None,
        child: Child | None = None,
        folder: Path | None = None,
        seconds: float = 0.0,
    ) -> None:
        self._architecture = architecture
        self._told = told
        self._resources = resources
        self._child = child
        self._folder = folder
        self._seconds = seconds
        self._start = time.monotonic()

    def finish(self) -> Kernel:
        """Return the kernel's figures.

        Raises:
            Fault: it cannot be assembled, or not in time.
        """
        resources = self._resources if self._resources is not None else self._wait()
        told, architecture = self._told, self._architecture
        shared = max(int(told["shared"]), resources.shared)
        held = occupancy(
            architecture.limits,
            resources.registers,
            shared,
            int(told["warps"]) * architecture.warp,
        )
        return Kernel(
            name=str(told["name"])[:100],
            architecture=architecture.name,
            registers=resources.registers,
            shared=shared,
            spills=resources.spill_bytes if resources.spill_stores is not None else 0,
            stack=resources.stack,
            warps=int(told["warps"]),
            occupancy=held.fraction,
            limited_by=tuple(held.limited_by),
            launches=int(told["launches"]),
            losses=resources.losses,
        )

    def _wait(self) -> Resources:
        assert self._child is not None
        assert self._folder is not None
        try:
            status = self._child.wait(self._start + self._seconds - time.monotonic())
            log = self._child.log()
        finally:
            self.close()
        where = f"kernel {self._told['name']} for {self._architecture.name}"
        if status is None:
            reason = f"{where}: the assembler was still busy after {self._seconds:.0f} s"
            raise Fault(TimedOut(reason=reason, seconds=self._seconds))
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) in {112, 113}:
            last = (log.splitlines() or [str(status)])[-1]
            raise ToolchainError(f"ptxas of the triton package cannot be started: {last}")
        found = parse_ptxas(log)
        if status != 0 or len(found) != 1:
            first = next((line for line in log.splitlines() if "error" in line), f"status {status}")
            raise Fault(
                BuildFailed(reason=f"{where} cannot be assembled: {first[:300]}", detail=log[:2000])
            )
        return found[0]

    def close(self) -> None:
        """End the assembler and remove its files."""
        if self._child is not None:
            self._child.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def ptxas(architecture: Architecture) -> Path:
    """Return the assembler that Triton brings for an architecture.

    Raises:
        ToolchainError: Triton is not installed.
    """
    name = "ptxas-blackwell" if architecture.capability >= 100 else "ptxas"
    return triton_folder() / "backends" / "nvidia" / "bin" / name


def triton_folder() -> Path:
    """Return where Triton is installed; it is not imported.

    Raises:
        ToolchainError: it is not, or not in the version whose inner parts are used here.
    """
    found = importlib.util.find_spec("triton")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    if not places:
        raise ToolchainError(
            "a dry run needs triton, which is not installed: pip install 'kernel-kb[triton]', or "
            "pip install 'triton>=3.6,<3.7'"
        )
    version = importlib.metadata.version("triton")
    if not version.startswith(_TRITON):
        raise ToolchainError(
            f"a dry run needs triton {_TRITON}x, found {version}: pip install 'kernel-kb[triton]' in "
            "an environment of its own"
        )
    return Path(places[0])


def _read(scratch: Path, told: Mapping[str, Any]) -> str:
    """Read a file that a candidate's process wrote, as if it had written it to mislead."""
    kinds = {"name": str, "file": str, "shared": int, "warps": int, "fused": bool, "launches": int}
    if any(type(told.get(key)) is not kind for key, kind in kinds.items()):
        raise forged(f"a kernel without its figures: {str(told)[:200]}")
    if not (0 <= told["shared"] < 1 << 30 and 1 <= told["warps"] <= 64 and told["launches"] >= 1):
        raise forged(f"a kernel with impossible figures: {str(told)[:200]}")
    path = scratch / Path(told["file"]).name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_LONGEST).decode(errors="replace")
    except OSError as error:
        raise forged(f"no assembly of kernel {told['name'][:80]}: {error.strerror}") from error
