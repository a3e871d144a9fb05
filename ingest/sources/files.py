"""Which files are below the paths that were asked for, and which cannot be read."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.document import decode
from ingest.readers import MAX_BYTES as MOST
from ingest.readers import suffixes
from ingest.sources.gitignore import Ignored, ignored_below
from kb.errors import RecordError

MIB = 1024 * 1024
MAX_BYTES = 8 * MIB  # of a text; `ingest.readers` has those of other formats
ARCHIVES = (".zip", ".tar", ".tgz", ".txz", ".tbz2", ".tar.gz", ".tar.xz", ".tar.bz2")
UNPACKABLE = (".tar.zst", ".tzst", ".7z", ".rar")  # no reader in the standard library
FEW = 3  # files of one unknown suffix that are worth a line each
_PASSED_OVER = frozenset({"__pycache__", "node_modules"})
_MARKS = ("pyvenv.cfg", "kb.sqlite")  # a virtual environment, a home of kb
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})  # Unicode's general categories


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file to read, or the reason why it or a folder cannot be.

    Attributes:
        path: where its bytes lie: absolute, links of its folders resolved. A file of an archive
            or of an address lies in a temporary folder, under its own name.
        shown: what a quotation and a message call it; it has printable characters only.
        key: its identity in the store, where that is another than its path.
        others: identities of files that are refused for the same reason and told in its line.
    """

    path: Path
    shown: str
    reason: str | None = None
    key: str = ""
    others: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Its key in the store: the same in every run."""
        return self.key or self.path.as_posix()


def find(paths: Sequence[Path], *, archives: bool = False) -> Iterator[FoundFile]:
    """Yield what is below `paths`, in a fixed order, each file once.

    Hidden files, caches, virtual environments and what a git checkout ignores are passed over.
    Links are not followed: one that leads out of its root is refused, one that stays inside names
    a file that is found anyway.

    Args:
        archives: yield archives as they are, for `ingest.collect` to open, instead of refusing them.
    """
    seen: set[Path] = set()
    for path in paths:
        for found in _below(path, archives):
            if found.path not in seen:
                seen.add(found.path)
                yield found


def is_archive(name: str) -> bool:
    """Say whether a file of this name is one that `ingest.collect` opens."""
    return name.lower().endswith(ARCHIVES)


def limit_of(path: Path) -> int:
    """Return how many bytes a document of this suffix may have."""
    return MOST.get(suffixes().get(path.suffix.lower(), ""), MAX_BYTES)


def read_bytes(path: Path) -> bytes:
    """Return a document's bytes.

    Raises:
        RecordError: it is no file, cannot be read or is too large; the message is the reason.
    """
    limit = limit_of(path)
    try:
        # Without waiting: opening a pipe would wait for a writer. Links were resolved before.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise RecordError("expected a file, found a device, pipe or socket: leave it out")
            size = about.st_size
            data = b"" if size > limit else file.read(limit + 1)
    except OSError as error:
        if error.errno in {errno.ENXIO, errno.ENODEV}:
            raise RecordError(
                "expected a file, found a device, pipe or socket: leave it out"
            ) from error
        raise RecordError(f"cannot be read ({error.strerror}): check its permissions") from error
    if max(size, len(data)) > limit:
        raise RecordError(
            f"expected at most {limit // MIB} MiB, found {max(size, len(data)) / MIB:.1f}: split it"
        )
    return data


def read_text(path: Path) -> tuple[bytes, str]:
    """Return a file's bytes and its text.

    Raises:
        RecordError: it is not a readable text file of a usable size; the message is the reason.
    """
    data = read_bytes(path)
    return data, decode(data)


def expanded(path: Path) -> Path:
    """Return a path with ``~`` as the home it stands for; as it is where there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def printable(name: str) -> str:
    """Return `name` with what would move a terminal's cursor or turn its text around escaped."""
    if name.isprintable() and name.isascii():
        return name
    return "".join(
        one.encode("unicode_escape").decode() if unicodedata.category(one) in _UNPRINTABLE else one
        for one in name
    )


def _below(path: Path, archives: bool) -> Iterator[FoundFile]:
    try:
        real = expanded(path).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "a loop of links"
        absolute = Path(os.path.abspath(expanded(path)))
        yield FoundFile(
            path=absolute, shown=printable(str(path)), reason=f"{reason}: check the path"
        )
        return
    if not real.is_dir():
        yield _file(real, real.name, archives)
        return
    yield from _folder(real, archives)


def _folder(root: Path, archives: bool) -> Iterator[FoundFile]:
    failed: list[OSError] = []
    unread: dict[str, list[FoundFile]] = {}
    ignored = ignored_below(root)
    for folder, folders, files in os.walk(root, onerror=failed.append):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if _is_wanted(here / name, ignored))
        links = [name for name in folders if os.path.islink(here / name)]
        kept = [name for name in files if not ignored(here / name)]
        for found in _entries(here, [*kept, *links], root, archives):
            if found.reason is None or found.path.suffix.lower() in suffixes():
                yield found
            else:
                unread.setdefault(found.path.suffix, []).append(found)
    yield from _summed(unread, root)
    for failure in failed:
        place = Path(failure.filename)
        reason = f"cannot be listed ({failure.strerror}): check its permissions"
        yield FoundFile(path=place, shown=_shown(place, root), reason=reason)


def _entries(here: Path, names: Sequence[str], root: Path, archives: bool) -> Iterator[FoundFile]:
    """Yield the files of one folder."""
    for name in sorted(names):
        path = here / name
        if name.startswith(".") or _marks_a_package(path):
            continue
        shown = _shown(path, root)
        if os.path.islink(path):
            yield from _link(path, shown, root)
        else:
            yield _file(path, shown, archives)


def _marks_a_package(path: Path) -> bool:
    """Say whether a file is there to be there, as an empty __init__.py is: nothing is lost in it."""
    try:
        return path.name == "__init__.py" and path.lstat().st_size == 0
    except OSError:  # it is refused with its reason when it is read
        return False


def _summed(unread: dict[str, list[FoundFile]], root: Path) -> Iterator[FoundFile]:
    """Yield one line a suffix where a folder has many files that nothing reads."""
    for suffix, files in sorted(unread.items()):
        if len(files) <= FEW:
            yield from files
        else:
            shown = printable(f"{root.name}/**/*{suffix}")
            reason = f"{len(files)} files, {files[0].reason}"
            yield FoundFile(path=root / f"**/*{suffix}", shown=shown, reason=reason)


def _link(path: Path, shown: str, root: Path) -> Iterator[FoundFile]:
    try:
        inside = path.resolve().is_relative_to(root)
        reason = "a link that leads out of the folder: ingest what it points to by its own path"
    except (OSError, RuntimeError):  # pathlib says of a loop that it is a RuntimeError
        inside, reason = False, "a loop of links: remove it"
    if not inside:
        yield FoundFile(path=path, shown=shown, reason=reason)


def _file(path: Path, shown: str, archives: bool) -> FoundFile:
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        reason = "expected a name in UTF-8, found other bytes: rename it"
        return FoundFile(path=path, shown=printable(shown), reason=reason)
    if path.suffix.lower() in suffixes() or (archives and is_archive(path.name)):
        return FoundFile(path=path, shown=printable(shown))
    return FoundFile(path=path, shown=printable(shown), reason=unreadable(path.name))


def unreadable(name: str) -> str:
    """Return the reason why a file of this name has no reader."""
    if name.lower().endswith(UNPACKABLE):
        return "an archive that cannot be opened here: unpack it, or pack it as .zip or .tar.xz"
    suffix = Path(name).suffix
    # One suffix a reader: all of them would fill the screen where many files have none.
    readers = list(suffixes().values())
    first = [one for place, one in enumerate(suffixes()) if readers.index(readers[place]) == place]
    known = " ".join([*first, ".zip", ".tar.gz"])
    return f"no reader for {printable(suffix) or 'a file without a suffix'}: known are {known} …"


def _is_wanted(folder: Path, ignored: Ignored) -> bool:
    if folder.name.startswith(".") or folder.name in _PASSED_OVER or ignored(folder):
        return False
    # Not Path.exists: it raises where the folder may be listed but not entered.
    return not any(os.path.exists(folder / mark) for mark in _MARKS)


def _shown(path: Path, root: Path) -> str:
    return printable((Path(root.name) / path.relative_to(root)).as_posix())
