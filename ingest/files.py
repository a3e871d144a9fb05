"""Which files are below the paths that were asked for, and which cannot be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.readers import SUFFIXES
from kb.errors import RecordError

MAX_BYTES = 8 * 1024 * 1024
FEW = 3  # files of one unknown suffix that are worth a line each
_PASSED_OVER = frozenset({"__pycache__", "node_modules"})
_MARKS = ("pyvenv.cfg", "kb.sqlite")  # a virtual environment, a home of kb


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file to read, or the reason why it or a folder cannot be.

    Attributes:
        path: absolute, links of its folders resolved.
        shown: what a quotation and a message call it.
    """

    path: Path
    shown: str
    reason: str | None = None


def find(paths: Sequence[Path]) -> Iterator[Found]:
    """Yield what is below `paths`, in a fixed order, each file once.

    Hidden files, caches and virtual environments are passed over. Links are not followed: one
    that leads out of its root is refused, one that stays inside names a file that is found anyway.
    """
    seen: set[Path] = set()
    for path in paths:
        for found in _below(path):
            if found.path not in seen:
                seen.add(found.path)
                yield found


def read_text(path: Path) -> tuple[bytes, str]:
    """Return a file's bytes and its text.

    Raises:
        RecordError: it is not a readable text file of a usable size; the message is the reason.
    """
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise RecordError("expected a file, found a device, pipe or socket: leave it out")
        if about.st_size > MAX_BYTES:
            raise RecordError(
                f"expected at most {MAX_BYTES >> 20} MiB, found {about.st_size / 2**20:.1f}: split it"
            )
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot be read ({error.strerror}): check its permissions") from error
    if b"\0" in data:
        raise RecordError("expected text, found a binary file: leave it out or convert it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(
            f"expected UTF-8 text, found byte {data[error.start]:#04x} at {error.start}: convert it"
        ) from error
    if not text.strip():
        raise RecordError("expected text, found an empty file: write something into it")
    return data, text.replace("\r\n", "\n").replace("\r", "\n")


def _below(path: Path) -> Iterator[Found]:
    try:
        real = path.expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "a loop of links"
        absolute = Path(os.path.abspath(path.expanduser()))
        yield Found(path=absolute, shown=str(path), reason=f"{reason}: check the path")
        return
    if not real.is_dir():
        yield _file(real, real.name)
        return
    failed: list[OSError] = []
    unread: dict[str, list[Found]] = {}
    for folder, folders, files in os.walk(real, onerror=failed.append):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if _is_wanted(here / name))
        links = [name for name in folders if (here / name).is_symlink()]
        for name in sorted([*files, *links]):
            for found in () if name.startswith(".") else _entry(here / name, real):
                if found.reason is None or found.path.suffix.lower() in SUFFIXES:
                    yield found
                else:
                    unread.setdefault(found.path.suffix, []).append(found)
    yield from _summed(unread, real)
    for failure in failed:
        place = Path(failure.filename)
        reason = f"cannot be listed ({failure.strerror}): check its permissions"
        yield Found(path=place, shown=_shown(place, real), reason=reason)


def _summed(unread: dict[str, list[Found]], root: Path) -> Iterator[Found]:
    """Yield one line a suffix where a folder has many files that nothing reads."""
    for suffix, files in sorted(unread.items()):
        if len(files) <= FEW:
            yield from files
        else:
            shown = f"{root.name}/**/*{suffix}"
            reason = f"{len(files)} files, {files[0].reason}"
            yield Found(path=root / f"**/*{suffix}", shown=shown, reason=reason)


def _entry(path: Path, root: Path) -> Iterator[Found]:
    shown = _shown(path, root)
    if path.is_symlink():
        target = path.resolve()
        if not target.is_relative_to(root):
            reason = "a link that leads out of the folder: ingest what it points to by its own path"
            yield Found(path=path, shown=shown, reason=reason)
        return
    yield _file(path, shown)


def _file(path: Path, shown: str) -> Found:
    if path.suffix.lower() in SUFFIXES:
        return Found(path=path, shown=shown)
    known = " ".join(SUFFIXES)
    reason = f"no reader for {path.suffix or 'a file without a suffix'}: known are {known}"
    return Found(path=path, shown=shown, reason=reason)


def _is_wanted(folder: Path) -> bool:
    if folder.name.startswith(".") or folder.name in _PASSED_OVER:
        return False
    return not any((folder / mark).exists() for mark in _MARKS)


def _shown(path: Path, root: Path) -> str:
    return (Path(root.name) / path.relative_to(root)).as_posix()
