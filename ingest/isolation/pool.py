"""Reading what strangers wrote, in a process that may fail: one warm worker, restarted when it dies.

Parsers of PDF, HTML and source code are large programs in C; a damaged or hostile file can make
them run for ever, eat the memory or crash. They run in `ingest.isolation.worker`, which is given one file at
a time, and its answer comes back as JSON: nothing that it sends is executed here.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.readers import ParsedFile
from ingest.sources.archives import MAX_TOTAL, Member
from ingest.sources.files import MIB, FoundFile
from kb.errors import RecordError
from kb.store.documents import Piece

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_ANSWER = 512 * MIB
START_SECONDS = 120  # of a cold start on a busy machine
# What the worker may know of its surroundings: where its packages and its cache are, no secrets.
_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_CACHE_HOME", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What reading one file may take.

    Attributes:
        seconds: of any file; `seconds_per_mib` of its size come on top, up to `most_seconds`. A PDF
            of 3,000 pages takes 90 s and may be of 8 MiB.
        memory: bytes of address space, the worker's own 400 MiB among them; four times the size of
            the file comes on top.
    """

    seconds: float = 120
    seconds_per_mib: float = 20
    most_seconds: float = 900
    memory: int = 1536 * MIB

    def time(self, size: int) -> float:
        """Return the seconds that a file of `size` bytes may take."""
        return min(self.seconds + self.seconds_per_mib * size / MIB, self.most_seconds)

    def space(self, size: int) -> int:
        """Return the bytes of address space that a file of `size` bytes may take."""
        return self.memory + 4 * size


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What reading made of a file."""

    reading: ParsedFile
    pieces: tuple[Piece, ...]


class Confined:
    """Reads files, one after the other, in a worker process.

    It starts with the first file. Use it as a context, or call `close`.
    """

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._worker: subprocess.Popen[bytes] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()  # between a worker's start and `close`
        self._closing = False

    def __enter__(self) -> Confined:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, found: FoundFile) -> Made:
        """Read one file and cut it into passages.

        Raises:
            RecordError: it cannot be read, or not within the bounds; the message is the reason.
        """
        if found.reason is not None:
            raise RecordError(found.reason)
        request = {
            "do": "read",
            "path": str(found.path),
            "shown": found.shown,
            "written": 0,
        }
        reading, pieces = _made().validate_json(self._ask(request, _size(found.path)))
        return Made(reading=reading, pieces=pieces)

    def unpack(self, archive: Path, into: Path) -> list[Member]:
        """Write the readable files of an archive into numbered folders below `into`.

        Raises:
            RecordError: the archive is damaged or too much; the message is the reason.
        """
        request = {"do": "unpack", "path": str(archive), "into": str(into), "written": MAX_TOTAL}
        return _members().validate_json(self._ask(request, _size(archive)))

    @property
    def thread(self) -> ThreadPoolExecutor:
        """A thread to read in. The worker dies with the thread that started it: this one stays."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="reading")
        return self._thread

    def close(self) -> None:
        """End the worker and what is read in `thread`, and wait for both: soon, since nobody answers."""
        with self._lock:
            self._closing = True
            worker = self._worker
        if worker is not None:
            worker.kill()
        try:
            if self._thread is not None:
                self._thread.shutdown(cancel_futures=True)
                self._thread = None
            self._end()
        finally:
            self._closing = False

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            _ended(worker)

    def _ask(self, request: Mapping[str, Any], size: int) -> bytes:
        from pydantic_core import from_json, to_json

        seconds = self._bounds.time(size)
        limits = {"seconds": int(seconds) + 1, "memory": self._bounds.space(size)}
        worker = self._started()
        try:
            _write(worker, to_json({**request, **limits}) + b"\n")
            answer = _receive(worker, time.monotonic() + seconds)
        except TimeoutError:
            self._end()
            raise RecordError(
                f"expected to be read in {seconds:.0f} s, was not: split it or leave it out"
            ) from None
        except EOFError:
            raise RecordError(self._epitaph(worker)) from None
        except BaseException:
            # An answer that nobody took would be taken for that of the next file.
            self._end()
            raise
        if answer.startswith(b'{"refused"'):
            raise RecordError(from_json(answer)["refused"])
        return answer.removeprefix(b'{"done":').removesuffix(b"}")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._worker is not None and self._worker.poll() is None:
            return self._worker
        self._end()
        try:
            with self._lock:
                if self._closing:
                    raise RecordError("reading was ended before this file")
                self._worker = worker = _start()
            ready = _receive(worker, time.monotonic() + START_SECONDS)
        except (EOFError, TimeoutError):
            ready = b""
        except BaseException:
            self._end()  # its word would be taken for the answer to the next file
            raise
        if ready != b"ready":
            self._end()
            raise RecordError(
                "the process that reads documents does not start: python -m ingest.isolation.worker says why"
            )
        return worker

    def _epitaph(self, worker: subprocess.Popen[bytes]) -> str:
        """Say why the worker ended."""
        self._end()
        code = worker.returncode
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"its reader died ({cause}): leave it out or convert it"


def _ended(worker: subprocess.Popen[bytes]) -> None:
    """End a worker, and close what leads to it."""
    if worker.poll() is None:
        worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()


def _start() -> subprocess.Popen[bytes]:
    # Without -P, a module of the folder that is read could stand in for one of ours.
    command = [sys.executable, "-P", "-m", "ingest.isolation.worker"]
    kept = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    # From the folder of these packages, wherever the caller stands.
    places = [str(Path(__file__).parents[2])]
    places += [os.path.abspath(one) for one in os.environ.get("PYTHONPATH", "").split(":") if one]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**kept, "PYTHONPATH": ":".join(places)},
        cwd="/",
        bufsize=0,
        start_new_session=True,
    )


def _write(worker: subprocess.Popen[bytes], data: bytes) -> None:
    assert worker.stdin is not None
    try:
        worker.stdin.write(data)
    except BrokenPipeError as error:
        raise EOFError from error


def _receive(worker: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Return the next answer.

    Raises:
        TimeoutError: it did not come by `deadline`.
        EOFError: the worker ended, or sent what is no answer.
    """
    assert worker.stdout is not None
    handle = worker.stdout.fileno()
    length = int.from_bytes(_exactly(handle, 8, deadline), "little")
    if length > MAX_ANSWER:
        raise EOFError
    return _exactly(handle, length, deadline)


def _exactly(handle: int, count: int, deadline: float) -> bytes:
    data = bytearray()
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    while len(data) < count:
        left = deadline - time.monotonic()
        if left <= 0 or not waiting.poll(left * 1000):
            raise TimeoutError
        part = os.read(handle, min(count - len(data), MIB))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # the worker says what is wrong with it


@cache
def _made() -> TypeAdapter[tuple[ParsedFile, tuple[Piece, ...]]]:
    from pydantic import TypeAdapter

    return TypeAdapter(tuple[ParsedFile, tuple[Piece, ...]])


@cache
def _members() -> TypeAdapter[list[Member]]:
    from pydantic import TypeAdapter

    return TypeAdapter(list[Member])
