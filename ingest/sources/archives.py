"""Zip and tar opened for reading: members are written under numbers, never under their own paths.

An archive of a stranger may be a bomb (forty bytes that become a gigabyte, archives in archives),
may name paths outside its folder, links and devices, and may be damaged. Nothing is trusted to be
as long as its header says: what is unpacked is counted as it is written.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from ingest.readers import suffixes
from ingest.sources.files import MIB, is_archive, limit_of, printable, unreadable
from kb.errors import RecordError

MAX_MEMBERS = 200_000
MAX_TOTAL = 2048 * MIB
MAX_RATIO = 200  # text packs 3 to 30 times; a bomb a thousand and more
FREE = 16 * MIB  # unpacked bytes that no ratio is asked of
MAX_DEPTH = 2  # archives in archives
_CHUNK = MIB
_NAMED_BYTES = 255  # of one step of a path
_FOREIGN = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,  # a packing method that zipfile does not know
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file of an archive: where it was written, or why it was not.

    Attributes:
        name: its path in the archive, with those of the archives around it.
        path: where it lies; None where it was refused.
    """

    name: str
    path: str | None = None
    reason: str | None = None


@dataclass(kw_only=True)
class _Allowance:
    """What an archive and those in it may still unpack.

    Attributes:
        packed: bytes of the outermost archive.
    """

    packed: int
    written: int = 0
    members: int = 0
    folders: dict[tuple[Path, str], Path] = field(default_factory=dict)

    def spend(self, count: int) -> None:
        self.written += count
        if self.written > MAX_TOTAL:
            raise RecordError(
                f"expected an archive of at most {MAX_TOTAL // MIB} MiB unpacked, found more: unpack it yourself"
            )
        if self.written > FREE and self.written > self.packed * MAX_RATIO:
            raise RecordError(
                f"expected an archive that unpacks to at most {MAX_RATIO} times its size, found more "
                "(a bomb?): unpack it yourself if you trust it"
            )

    def count(self) -> None:
        self.members += 1
        if self.members > MAX_MEMBERS:
            raise RecordError(
                f"expected at most {MAX_MEMBERS:,} files in an archive, found more: unpack it yourself"
            )


def unpack(archive: Path, into: Path) -> list[Member]:
    """Write the readable files of `archive` below `into` and return them in its order.

    Each folder of the archive becomes a numbered one, so that files which lie beside each other
    still do. A member that cannot be taken is returned with its reason.

    Raises:
        RecordError: the archive is damaged, encrypted as a whole, or more than is allowed.
    """
    allowance = _Allowance(packed=archive.stat().st_size)
    return list(_members(archive, into, "", MAX_DEPTH, allowance))


def _members(
    archive: Path, into: Path, prefix: str, depth: int, allowance: _Allowance
) -> Iterator[Member]:
    is_zip = archive.name.lower().endswith(".zip")
    # A tar is counted as its stream is read.
    spend = allowance.spend if is_zip else _spend_nothing
    try:
        for name, odd, copy in (_zip if is_zip else _tar)(archive, allowance):
            allowance.count()
            shown = f"{prefix}{printable(name)}"
            if (reason := odd or _objection(name)) is not None:
                yield Member(name=shown, reason=reason)
                continue
            if not _is_wanted(name):
                continue
            path = _place(into, prefix, name, allowance)
            refused = _write(path, copy, spend)
            if refused is not None:
                yield Member(name=shown, reason=refused)
            elif not is_archive(path.name):
                yield Member(name=shown, path=str(path))
            elif depth == 0:
                yield Member(
                    name=shown,
                    reason=f"archives more than {MAX_DEPTH} deep in one another: unpack it",
                )
            else:
                yield from _inner(path, into, shown, depth, allowance)
    except _FOREIGN as error:
        raise RecordError(f"a damaged archive ({_line(error)}): pack it again") from error


def _inner(
    path: Path, into: Path, shown: str, depth: int, allowance: _Allowance
) -> Iterator[Member]:
    try:
        yield from _members(path, into, f"{shown}/", depth - 1, allowance)
    except RecordError as error:
        yield Member(name=shown, reason=str(error))
    path.unlink(missing_ok=True)


Copy = Callable[[], IO[bytes]]
Entries = Iterator[tuple[str, str | None, Copy]]


def _zip(archive: Path, allowance: _Allowance) -> Entries:
    with zipfile.ZipFile(archive) as file:
        if len(file.infolist()) > MAX_MEMBERS:
            allowance.members = MAX_MEMBERS
        for entry in file.infolist():
            if entry.is_dir():
                continue
            reason = None
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in {0, stat.S_IFREG}:
                reason = "expected a file, found a link or a device: leave it out"
            elif entry.flag_bits & 1:
                reason = "expected a readable file, found an encrypted one: unpack it yourself"
            # The name before zipfile cut it at a zero byte.
            name = getattr(entry, "orig_filename", entry.filename)
            yield name, reason, lambda entry=entry: file.open(entry)  # type: ignore[misc]


def _tar(archive: Path, allowance: _Allowance) -> Entries:
    with (
        _Metered(archive, allowance) as stream,
        tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as file,
    ):
        while (entry := file.next()) is not None:
            file.members = []  # type: ignore[attr-defined]  # it would keep every header
            if entry.isdir():
                continue
            reason = None
            if not entry.isreg() or entry.issparse():
                reason = "expected a file, found a link or a device: leave it out"
            yield entry.name, reason, lambda entry=entry: _opened(file, entry)  # type: ignore[misc]


def _opened(file: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    opened = file.extractfile(entry)
    if opened is None:
        raise RecordError("expected a file, found a link or a device: leave it out")
    return opened


class _Metered:
    """An unpacked tar stream that is counted as it is read, headers and skipped files too."""

    def __init__(self, archive: Path, allowance: _Allowance) -> None:
        self._file = _unpacked(archive)
        self._allowance = allowance

    def __enter__(self) -> _Metered:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size if 0 <= size <= _CHUNK else _CHUNK)
        self._allowance.spend(len(data))
        return data


def _unpacked(archive: Path) -> BinaryIO:
    with archive.open("rb") as file:
        head = file.read(6)
    if head.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", gzip.open(archive))
    if head.startswith(b"\xfd7zXZ"):
        return cast("BinaryIO", lzma.open(archive))
    if head.startswith(b"BZh"):
        return cast("BinaryIO", bz2.open(archive))
    return archive.open("rb")


def _objection(name: str) -> str | None:
    """Return why a member of this name is not taken."""
    path = PurePosixPath(name)
    outside = path.is_absolute() or ".." in path.parts or "\\" in name
    if outside or (len(name) > 1 and name[1] == ":"):
        return "a path that leads out of the archive: pack it again with relative paths"
    if "\0" in name or not name.strip("/."):
        return "expected a name, found none that can be used: pack it again"
    try:
        longest = max(len(step.encode()) for step in path.parts)
    except UnicodeEncodeError:
        return "expected a name in UTF-8, found other bytes: pack it again"
    if longest > _NAMED_BYTES:
        return f"expected names of at most {_NAMED_BYTES} bytes, found {longest}: rename it"
    if not _is_hidden(path) and not _is_wanted(name):
        return unreadable(path.name)
    return None


def _is_hidden(path: PurePosixPath) -> bool:
    return any(step.startswith(".") or step in {"__MACOSX", "__pycache__"} for step in path.parts)


def _is_wanted(name: str) -> bool:
    path = PurePosixPath(name)
    if _is_hidden(path):
        return False
    return path.suffix.lower() in suffixes() or is_archive(path.name)


def _place(into: Path, prefix: str, name: str, allowance: _Allowance) -> Path:
    """Return where a member is written: its own name in the numbered folder of its folder."""
    path = PurePosixPath(name)
    key = (into, f"{prefix}{path.parent}")
    if key not in allowance.folders:
        allowance.folders[key] = into / str(len(allowance.folders))
        allowance.folders[key].mkdir()
    return allowance.folders[key] / path.name


def _write(path: Path, copy: Copy, spend: Callable[[int], None]) -> str | None:
    """Write one member; return why it was refused."""
    limit = MAX_TOTAL if is_archive(path.name) else limit_of(path)
    size = 0
    if path.exists():
        return "a second file of this name: pack it again"
    try:
        with path.open("xb") as target, copy() as source:
            while size <= limit and (data := source.read(_CHUNK)):
                size += len(data)
                spend(len(data))
                target.write(data)
    except _FOREIGN as error:
        path.unlink(missing_ok=True)
        return f"cannot be unpacked ({_line(error)}): unpack it yourself"
    if size > limit:
        path.unlink()
        return f"expected at most {limit // MIB} MiB, found more: split it"
    return None


def _spend_nothing(_: int) -> None:
    pass


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
