"""Compiles a candidate's native parts in a sandbox, once for each content."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from kb.errors import ToolchainError
from kb.runtime.cpp import processor
from search.languages import Language, Unbuildable, Unit
from search.outcome import BuildFailed, TimedOut
from search.sandbox.faults import Fault
from search.sandbox.sandbox import Cell
from search.sandbox.zygote import Child, Zygote

_MEMORY = 4 << 30
_FILE = 64 << 20  # bytes of one file that a compiler writes
_TOGETHER = 128 << 20  # bytes of all parts of a candidate
_LOG = 1 << 18  # bytes of a compiler's messages that are looked at
QUOTA = 4 << 30  # bytes of a folder of builds
_PASSING = ("gate-", "build-")  # folders of one candidate
_STALE = 86400.0  # seconds after which nobody needs such a folder
_FRESH = 600.0  # seconds in which another judge may still load what it found


class Gate:
    """A folder through which a runner may read builds that are made after its walls stand.

    Args:
        folder: of the builds.
    """

    def __init__(self, folder: Path) -> None:
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self.path = Path(tempfile.mkdtemp(prefix="gate-", dir=folder))

    def admit(self, built: Mapping[str, str]) -> dict[str, str]:
        """Put builds there; return where they are now.

        Raises:
            ToolchainError: there is no room.
        """
        found = {}
        for key, library in built.items():
            there = self.path / Path(library).name
            with _writing(self.path):
                try:
                    os.link(library, there)
                except OSError:  # another user's, or a file system without links
                    shutil.copy(library, there)
            found[key] = str(there)
        return found

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)


class Builder:
    """Keeps shared objects by content; only the judge writes to the folder.

    Args:
        folder: of the builds, shared by all tasks and runs.
        seconds: that compiling a candidate may take, all its parts together.
    """

    def __init__(self, zygote: Zygote, language: Language, folder: Path, seconds: float) -> None:
        self._zygote = zygote
        self._language = language
        self._folder = folder
        self._seconds = seconds

    def gate(self) -> Gate:
        """Return a way for builds into a runner that starts before they are made."""
        return Gate(self._folder)

    def build(self, source: str, beside: Callable[[], None] = lambda: None) -> dict[str, str]:
        """Return the path of the shared object of every native part of a candidate, by key.

        Args:
            beside: done while a compiler runs, if one does; of several, each time.

        Raises:
            Fault: it does not compile, or not within the bounds of a candidate.
            ToolchainError: there is no compiler, or no room for its output.
        """
        try:
            units = self._language.units(source)
        except Unbuildable as error:
            raise Fault(BuildFailed(reason=str(error))) from error
        start, size, built = time.monotonic(), 0, {}
        for unit in units:
            library = self._library(unit, self._seconds - (time.monotonic() - start), beside)
            built[unit.key] = str(library)
            size += library.stat().st_size
            if size > _TOGETHER:
                reason = f"its compiled parts have {size >> 20} MiB, {_TOGETHER >> 20} are the most"
                raise Fault(BuildFailed(reason=reason))
        return built

    def remarks(self, source: str) -> dict[str, str]:
        """Return what the compiler said of every native part of a candidate, by key.

        For CUDA that is ptxas's account of registers, shared memory and spills.

        Raises:
            Fault, ToolchainError: as `build`.
        """
        return {
            key: Path(path).with_suffix(".log").read_text(encoding="utf-8")
            for key, path in self.build(source).items()
        }

    def _library(self, unit: Unit, seconds: float, beside: Callable[[], None]) -> Path:
        command = self._language.command(unit, unit.text, unit.output)
        suffix = Path(unit.output).suffix
        library = self._folder / f"{unit.key}-{_toolchain(command)}{suffix}"
        if not used(library):
            if seconds <= 0:
                raise self._late(self._seconds)
            with _writing(self._folder):
                self._make(unit, list(command), library, seconds, beside)
        return library

    def _make(
        self,
        unit: Unit,
        command: list[str],
        library: Path,
        seconds: float,
        beside: Callable[[], None],
    ) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.mkdtemp(prefix="build-", dir=self._folder)
        try:
            built, log = self._compile(unit, command, Path(scratch), seconds, beside)
            # First the compiler's remarks: who finds the build finds them too.
            library.with_suffix(".log").write_text(log, encoding="utf-8")
            built.replace(library)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        prune(self._folder)

    def _compile(
        self,
        unit: Unit,
        command: list[str],
        scratch: Path,
        seconds: float,
        beside: Callable[[], None],
    ) -> tuple[Path, str]:
        for name, text in {**unit.files, unit.text: unit.source}.items():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / name).write_text(text, encoding="utf-8", errors="surrogateescape")
        cell = Cell(
            single=False,
            readable=self._language.readable(),
            writable=(str(scratch),),
            memory=_MEMORY,
            cpu_seconds=int(self._seconds) + 5,
            file_bytes=_FILE,
        )
        began = time.monotonic()
        request = {"op": "build", "cell": asdict(cell), "command": command, "folder": str(scratch)}
        with _starting():
            child = Child(self._zygote, request, [])
        try:
            with _starting():
                beside()
            status = child.wait(seconds - (time.monotonic() - began))
            log = child.log(_LOG)
        finally:
            child.kill()
        took = time.monotonic() - began
        if status is None:
            raise self._late(took)
        built = scratch / unit.output
        if status != 0 or built.is_symlink() or not built.is_file():
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) in {112, 113}:
                raise ToolchainError(
                    f"the compiler cannot be started: {log.splitlines()[-1] if log else status}"
                )
            detail = self._language.explain(log) or _ended(status)
            first = detail.splitlines()[0]
            raise Fault(
                BuildFailed(
                    reason=f"it does not compile: {first}", detail=detail, build_seconds=took
                )
            )
        built.chmod(0o555)
        return built, log

    def _late(self, took: float) -> Fault:
        reason = f"the compiler was still busy after {self._seconds:.0f} s, which all parts have together"
        return Fault(TimedOut(reason=reason, seconds=took, build_seconds=took))


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolchainError(
            f"cannot write to {folder} ({error.strerror}): free some room or set KB_HOME"
        ) from error


@contextmanager
def _starting() -> Iterator[None]:
    """Say of a process that does not start that it does not: the folder is not at fault."""
    try:
        yield
    except OSError as error:
        raise ToolchainError(f"a process for the candidate cannot be started ({error})") from error


def _ended(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"the compiler was ended by {signal.Signals(-code).name}: is the machine's memory used up?"
    return f"the compiler ended with exit code {code} and said nothing"


def used(build: Path) -> bool:
    """Say whether a build is there, and note that it was used."""
    try:
        os.utime(build)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # another user's
    return True


def prune(folder: Path, quota: int = QUOTA) -> None:
    """Remove the builds that were used longest ago from a folder that holds more than `quota` bytes.

    Files of one name, but for the suffix, go together. What a judge that was killed has left beside them goes too.
    """
    last: dict[str, float] = {}
    sizes: dict[str, int] = {}
    files: dict[str, list[str]] = {}
    with os.scandir(folder) as found:
        for entry in found:
            with suppress(FileNotFoundError):  # another judge prunes too
                if entry.is_file(follow_symlinks=False):
                    name, seen = entry.name.partition(".")[0], entry.stat(follow_symlinks=False)
                    last[name] = max(last.get(name, 0.0), seen.st_mtime)
                    sizes[name] = sizes.get(name, 0) + seen.st_size
                    files.setdefault(name, []).append(entry.path)
                elif (
                    entry.name.startswith(_PASSING) and entry.stat().st_mtime < time.time() - _STALE
                ):
                    shutil.rmtree(entry.path, ignore_errors=True)
    excess, now = sum(sizes.values()) - quota, time.time()
    for name in sorted(last, key=last.__getitem__):
        if excess <= 0 or last[name] > now - _FRESH:
            break
        for path in files[name]:
            with suppress(FileNotFoundError):
                os.unlink(path)
        excess -= sizes[name]


def _toolchain(command: Sequence[str]) -> str:
    """Name what decides the machine code beside the source: the compiler, its arguments, the processor."""
    real = os.path.realpath(command[0])
    found = os.stat(real)
    parts = (
        real,
        *command[1:],
        str(found.st_size),
        str(int(found.st_mtime)),
        processor(),
        str(resource.getpagesize()),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
