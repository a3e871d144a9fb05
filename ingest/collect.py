"""Where documents come from: files, folders, globs, git checkouts and archives."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ingest.isolation.pool import Confined
from ingest.sources.archives import Member
from ingest.sources.files import FEW, FoundFile, expanded, find, is_archive, printable
from kb.errors import ConfigError, RecordError

_MAGIC = re.compile(r"[*?\[]")

Source = str | Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Which documents of the store come from one source.

    Attributes:
        prefix: how the keys of all of them begin.
    """

    prefix: str
    _holds: Callable[[str], bool]

    def holds(self, key: str) -> bool:
        """Say whether the document of this key comes from the source."""
        return key.startswith(self.prefix) and self._holds(key)


def named(sources: Sequence[Source]) -> set[str]:
    """Return the keys of what was asked for by its own path or pattern."""
    plain = {os.path.abspath(expanded(Path(one))) for one in sources}  # where nothing is there
    return {*plain, *(_absolute(Path(one)) for one in sources)}


def reach(source: Source) -> Reach:
    """Return which keys of the store belong to `source`, whether it is there or not."""
    text = str(source)
    if _is_glob(source):
        return _reach_of_glob(text)
    place = _absolute(Path(text))
    whole = place.rstrip("/") + "/"
    return Reach(prefix=place, _holds=lambda key: key == place or key.startswith(whole))


@contextmanager
def gathered(sources: Sequence[Source], desk: Confined) -> Iterator[Iterator[FoundFile]]:
    """Give an iterator over what `sources` hold; what was unpacked stays until the end.

    Args:
        desk: unpacks the archives.

    Raises:
        ConfigError: there is no room for temporary files.
    """
    try:
        spool = tempfile.TemporaryDirectory(prefix="kb-ingest-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make a temporary folder ({error.strerror}): set TMPDIR to one that can be written"
        ) from error
    with spool as folder:
        yield _Spool(Path(folder).resolve(), desk).gather(sources)


class _Spool:
    """Opens sources into a folder of its own."""

    def __init__(self, folder: Path, desk: Confined) -> None:
        self._folder = folder
        self._desk = desk
        self._used = 0

    def gather(self, sources: Sequence[Source]) -> Iterator[FoundFile]:
        seen: set[str] = set()
        for source in sources:
            for found in self._open(source):
                if found.identity not in seen:
                    seen.add(found.identity)
                    yield found

    def _open(self, source: Source) -> Iterator[FoundFile]:
        text = str(source)
        if text.lower().startswith(("http://", "https://")):
            reason = "an address: download it first, e.g. with curl -LO, and ingest the file"
            yield FoundFile(path=Path(_absolute(Path(text))), shown=printable(text), reason=reason)
            return
        paths = _matches(text) if _is_glob(source) else [Path(text)]
        if not paths:
            reason = "no file matches: check the pattern"
            yield FoundFile(path=Path(_absolute(Path(text))), shown=printable(text), reason=reason)
        for found in find(paths, archives=True):
            if found.reason is None and is_archive(found.path.name):
                yield from self._unpacked(found, f"{found.identity}/")
            else:
                yield found

    def _unpacked(self, archive: FoundFile, prefix: str) -> Iterator[FoundFile]:
        try:
            members = self._desk.unpack(archive.path, self._room())
        except RecordError as error:
            yield replace(archive, reason=str(error))
            return
        yield from _documents(archive, members, prefix)

    def _room(self) -> Path:
        self._used += 1
        room = self._folder / str(self._used)
        room.mkdir()
        return room


def _documents(archive: FoundFile, members: Sequence[Member], prefix: str) -> Iterator[FoundFile]:
    """Yield the files of an archive, and in one line those that are refused for one reason."""
    refused: dict[str, list[FoundFile]] = {}
    for member in members:
        where = Path(member.path) if member.path is not None else Path(archive.path, "refused")
        found = FoundFile(
            path=where,
            shown=f"{archive.shown}/{printable(member.name)}",
            reason=member.reason,
            key=f"{prefix}{member.name}",
        )
        if member.reason is None:
            yield found
        else:
            refused.setdefault(member.reason, []).append(found)
    for reason, several in refused.items():
        if len(several) <= FEW:
            yield from several
        else:
            first = several[0]
            yield replace(
                first,
                reason=f"and {len(several) - 1} more of {archive.shown}: {reason}",
                others=tuple(one.identity for one in several[1:]),
            )


def _is_glob(source: Source) -> bool:
    text = str(source)
    return _MAGIC.search(text) is not None and not os.path.exists(expanded(Path(text)))


def _matches(pattern: str) -> list[Path]:
    found = glob.glob(str(expanded(Path(pattern))), recursive=True)
    return [Path(path) for path in sorted(found)]


def _reach_of_glob(pattern: str) -> Reach:
    from pathspec import GitIgnoreSpec

    whole = _absolute(Path(pattern))
    prefix = _MAGIC.split(whole)[0].rpartition("/")[0] + "/"
    # The same words as in a glob; that a folder which matches is taken with all that is in it holds too.
    spec = GitIgnoreSpec.from_lines([whole])
    return Reach(prefix=prefix, _holds=lambda key: spec.match_file(key.lstrip("/")))


def _absolute(path: Path) -> str:
    """Return a path as the store has it; links are resolved as far as the path is there."""
    try:
        return expanded(path).resolve().as_posix()
    except (OSError, RuntimeError):
        return expanded(path).absolute().as_posix()
