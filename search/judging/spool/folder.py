"""The spool folder: how files are written, claimed and read so that copying cannot spoil them.

No file is ever changed in place. A job is taken by renaming it, which one of several takers can do;
every file carries the hash of what it holds, so that a copy which is not whole is known as such. No
decision compares the clocks of two machines: a claim is stale when its owner's beat has stood still
for a time that the observer measured itself.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.errors import StoreError
from search.judging.spool.job import canonical

FORMAT = 1
_LARGEST = 64 << 20  # bytes of a file
_NAME = re.compile(
    r"(?P<job>[a-z]+-[0-9a-f]{32})(?:~(?P<tries>\d+))?(?:@(?P<owner>[\w.-]+))?\.json"
)
_PLACES = ("jobs", "claimed", "outcomes", "judges")


class Unreadable(Exception):
    """A file that is not whole, or not what it says; the message says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A job's file.

    Attributes:
        tries: how many judges have died on it.
        owner: who has claimed it, empty where nobody has.
    """

    path: Path
    job: str
    tries: int
    owner: str


def seal(kind: str, body: Mapping[str, Any]) -> str:
    """Return the text of a file that holds `body` and the hash of it."""
    digest = hashlib.sha256(canonical(body).encode()).hexdigest()
    return json.dumps({"kb_spool": FORMAT, "kind": kind, "sha256": digest, "body": body}, indent=1)


def unseal(data: bytes, kind: str) -> dict[str, Any]:
    """Return what `seal` was given.

    Raises:
        Unreadable: it is not whole, was changed, or is of another kind or version.
    """
    try:
        whole = json.loads(data)
        version, found, digest, body = (
            whole[key] for key in ("kb_spool", "kind", "sha256", "body")
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unreadable(f"not whole ({len(data)} bytes are there)") from None
    if not isinstance(body, dict):
        raise Unreadable("no object")
    if version != FORMAT or found != kind:
        raise Unreadable(f"a {found} of format {version}, expected a {kind} of format {FORMAT}")
    if hashlib.sha256(canonical(body).encode()).hexdigest() != digest:
        raise Unreadable("its hash differs from the one that it states")
    return body


def read_plain(path: Path) -> bytes:
    """Return what a file holds: a plain one, not a link to another place, a pipe or a device.

    Raises:
        Unreadable: it is none, or larger than any that is written here.
        OSError: it cannot be read.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise Unreadable("no plain file") from error
        raise
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable("no plain file")
        if found.st_size > _LARGEST:
            raise Unreadable(f"{found.st_size} bytes, {_LARGEST} are the most")
        return opened.read(_LARGEST)


class Folder:
    """A spool folder on a disk of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.jobs, self.claimed, self.outcomes, self.judges = (root / place for place in _PLACES)

    def make(self) -> Folder:
        """Create what is missing.

        Raises:
            StoreError: it cannot be made or written.
        """
        try:
            for place in _PLACES:
                (self.root / place).mkdir(parents=True, exist_ok=True)
                if (self.root / place).is_symlink():
                    raise StoreError(
                        f"{self.root / place} is a link to another place: expected a folder, remove the link"
                    )
            trial = self.judges / _draft_name()
            os.close(_create(trial))
            trial.unlink()
        except OSError as error:
            raise StoreError(
                f"cannot write to the spool folder {self.root} ({error.strerror}): name a folder that both sides may write to"
            ) from error
        return self

    def submit(self, job: str, body: Mapping[str, Any]) -> None:
        """Put a job there, unless it is waiting, claimed or answered already."""
        known = (*entries(self.jobs), *entries(self.claimed))
        if not self.outcome(job).exists() and not any(entry.job == job for entry in known):
            self.write(self.jobs / f"{job}.json", seal("job", body))

    def outcome(self, job: str) -> Path:
        """Return where the answer to `job` is or will be."""
        return self.outcomes / f"{job}.json"

    def withdraw(self, job: str) -> None:
        """Remove a job that nobody has claimed."""
        for entry in entries(self.jobs):
            if entry.job == job:
                entry.path.unlink(missing_ok=True)

    def claim(self, entry: JobFile, owner: str) -> JobFile | None:
        """Take a waiting job; None where somebody else was faster."""
        path = self.claimed / f"{entry.job}~{entry.tries}@{owner}.json"
        if not _moved(entry.path, path):
            return None
        return JobFile(path=path, job=entry.job, tries=entry.tries, owner=owner)

    def give_back(self, claim: JobFile, *, died: bool) -> bool:
        """Put a claimed job back among the waiting ones; say whether it was still claimed.

        Args:
            died: the judge that had it is gone, which counts against the job.
        """
        tries = claim.tries + died
        suffix = f"~{tries}" if tries else ""
        return _moved(claim.path, self.jobs / f"{claim.job}{suffix}.json")

    def answer(self, claim: JobFile, body: Mapping[str, Any]) -> None:
        """Write the answer to a claimed job, then let the job go."""
        self.write(self.outcome(claim.job), seal("outcome", body))
        claim.path.unlink(missing_ok=True)
        self.withdraw(claim.job)  # copied here again meanwhile, or given back by an observer

    def beat(self, owner: str, body: Mapping[str, Any]) -> None:
        """Say that `owner` is alive: `body` differs from beat to beat."""
        self.write(self.judges / f"{owner}.json", seal("beat", body))

    def beats(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the owners that have a beat, with the last one."""
        for path in _files(self.judges):
            with suppress(Unreadable, OSError):
                body = unseal(read_plain(path), "beat")
                if _is_beat(body):
                    yield path.stem, body

    def leave(self, owner: str) -> None:
        """Remove the beat of `owner`."""
        (self.judges / f"{owner}.json").unlink(missing_ok=True)

    def write(self, path: Path, text: str) -> None:
        """Write a file whole or not at all.

        Raises:
            StoreError: the disk is full or the folder is gone.
        """
        draft = path.parent / _draft_name()
        try:
            with os.fdopen(_create(draft), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())  # a stick that is pulled out must not hold half of it
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise StoreError(
                f"cannot write {path} ({error.strerror}): make room, or see that the folder is mounted"
            ) from error


def entries(place: Path) -> list[JobFile]:
    """Return the jobs whose files lie in `place`, the oldest file first."""
    found: list[tuple[float, JobFile]] = []
    for path in _files(place):
        matched = _NAME.fullmatch(path.name)
        if matched is None:
            continue
        with suppress(OSError):
            age = path.stat().st_mtime
            entry = JobFile(
                path=path,
                job=matched["job"],
                tries=int(matched["tries"] or 0),
                owner=matched["owner"] or "",
            )
            found.append((age, entry))
    return [entry for _, entry in sorted(found, key=lambda pair: (pair[0], pair[1].path.name))]


def owner_name() -> str:
    """Return a name of this process that no other process on any machine has now."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname()) or "host"
    return f"{host}-{os.getpid()}-{_started():x}"


def birthplace() -> str:
    """Return what tells whether a process id means the same here: boot and namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


class Leases:
    """Knows which judges are gone, by watching their beats.

    Args:
        seconds: how long a beat may stand still.
        clock: seconds that only run forward.
    """

    def __init__(
        self, folder: Folder, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._seconds = seconds
        self._clock = clock
        self._here = birthplace()
        self._seen: dict[str, tuple[object, float]] = {}

    def stale(self, me: str) -> list[JobFile]:
        """Return the claims whose owners are gone."""
        claims = [entry for entry in entries(self._folder.claimed) if entry.owner != me]
        if not claims:
            return []
        beats = dict(self._folder.beats())
        gone = {owner: self._gone(owner, beats.get(owner)) for owner in {c.owner for c in claims}}
        return [claim for claim in claims if gone[claim.owner]]

    def _gone(self, owner: str, beat: Mapping[str, Any] | None) -> bool:
        now = self._clock()
        count = None if beat is None else beat.get("beat")
        last = self._seen.get(owner)
        if last is None or last[0] != count:
            self._seen[owner] = last = (count, now)
        # On one machine there is no need to wait: a process that has ended will not go on.
        near = beat is not None and self._here and beat.get("birthplace") == self._here
        if near and beat is not None and "pid" in beat and not _runs(beat["pid"]):
            return True
        return now - last[1] > self._seconds


def _draft_name() -> str:
    return f".{secrets.token_hex(16)}.tmp"


def _create(draft: Path) -> int:
    """Open a file that is not there yet: not what somebody else has put in its place, a link above all."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(draft, flags, 0o666)


def _is_beat(body: Mapping[str, Any]) -> bool:
    pid = body.get("pid", 1)
    return type(body.get("beat")) is int and type(pid) is int and 0 < pid < 1 << 31


def _files(place: Path) -> list[Path]:
    try:
        # rsync and this program write under hidden names until a file is whole.
        return [path for path in place.iterdir() if path.suffix == ".json" and path.name[0] != "."]
    except FileNotFoundError:
        return []


def _moved(source: Path, target: Path) -> bool:
    try:
        source.rename(target)
    except FileNotFoundError:
        return False
    return True


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _started() -> int:
    """Return when this process began, in the kernel's ticks: process ids come round again."""
    try:
        return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
