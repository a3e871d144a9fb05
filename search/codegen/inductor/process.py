"""Has Inductor asked for a program's code, by a process that has imported it and forks one for each request."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from kb.config import Home
from kb.records.schema import TargetRecord
from search.codegen.inductor import Captured, Uncaptured
from search.targets.cpu import read_facts
from search.targets.cuda import read_device

_SECONDS = 300.0
_PLAIN = [8, 0]
_SHARED = 48 << 10  # bytes that every GPU gives a block, for records that do not say
_KEPT = 2000  # answers, of some 20 kB each


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU that code is written for.

    Attributes:
        figures: see `fake_cuda`.
    """

    figures: Mapping[str, Any]


def device_of(target: TargetRecord) -> Device | None:
    """Return the GPU that `target` is, None for a processor."""
    if target.device != "gpu":
        return None
    matched = re.fullmatch(r"sm_(\d+)(\d)a?", target.architecture)
    # Another vendor's GPU is given what every NVIDIA GPU would be: Triton, and nothing that only some of them have.
    figures = {
        "capability": [int(matched[1]), int(matched[2])] if matched else _PLAIN,
        "warp": target.simd_width,
        "units": target.units,
        "shared": target.limits.get("shared_memory_per_block", _SHARED),
        "name": target.title,
    }
    return Device(figures=figures)


def capture(
    source: str,
    program: str | None = None,
    stubs: Sequence[Mapping[str, Any]] = (),
    device: Device | None = None,
) -> Captured:
    """Return what torch.compile writes for a reference.

    Args:
        source: of the reference.
        program: a module with the class ``ModelNew`` that is compiled in its place.
        device: a GPU; a processor where it is None.
        stubs: operators of the namespace ``kb`` that `program` calls, see `search.codegen.inductor.capture`.

    Raises:
        Uncaptured: it writes nothing of which a candidate could be made.
    """
    return Captured.of(_told(_request(source, device, program, stubs)))


def _request(
    source: str,
    device: Device | None,
    program: str | None = None,
    stubs: Sequence[Mapping[str, Any]] = (),
) -> str:
    request: dict[str, Any] = {"source": source, "program": program, "stubs": [*stubs]}
    if device is not None:
        request |= {"device": "cuda", "figures": device.figures}
    return json.dumps(request)


def begin_capture(source: str, device: Device) -> None:
    """Have torch.compile asked for the code of a reference, which `capture` then waits for."""
    request = _request(source, device)
    if request not in (*_BEGUN, *_ANSWERED) and not _kept_at(request).exists():
        _BEGUN[request] = _Asked(request, hidden=_has_figures(request))


@lru_cache(maxsize=32)
def _answer(request: str) -> str:
    """Return what the process answers, from the user's cache where the same was asked before.

    The same answer takes seconds each time; runs of one task ask for the same code, in whichever home.
    """
    kept = _kept_at(request)
    with suppress(OSError, ValueError):
        text = kept.read_text(encoding="utf-8")
        json.loads(text)
        return text
    answer = _ask(request)
    if "reason" not in json.loads(answer):  # a refusal may have been this moment's
        _keep(kept, answer)
    return answer


def _kept_at(request: str) -> Path:
    name = hashlib.sha256(f"{_asked_of()}\0{request}".encode()).hexdigest()
    return Home.find().cache / "captured" / f"{name}.json"


class _Server:
    """The process that has imported the compiler, and forks one for each request.

    Args:
        hidden: it sees no GPU.
    """

    def __init__(self, *, hidden: bool) -> None:
        folder = Path(__file__).parents[3]
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {
            **_environment(hidden=hidden), "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH")))),
        }  # fmt: skip
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - it ends with this object
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "search.codegen.inductor.capture", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stderr=self.errors, cwd=folder, env=environment, pass_fds=(theirs.fileno(),),
            )  # fmt: skip

    @property
    def alive(self) -> bool:
        """Say whether it can be asked."""
        return self._process.poll() is None

    def ask(self, files: Sequence[int], *, processor: bool) -> None:
        """Have a request answered, for a processor or a GPU; whoever waits for it sees where it is not."""
        with suppress(OSError):
            socket.send_fds(self._socket, [b"processor" if processor else b"GPU"], files)

    def said(self) -> str:
        """Return what it printed."""
        return "" if self.errors.closed else _read(self.errors).strip()

    def close(self) -> None:
        """End it; what it has forked goes on."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self.errors.close()


def _environment(*, hidden: bool) -> dict[str, str]:
    return {
        **os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1",
        **({"CUDA_VISIBLE_DEVICES": ""} if hidden else {}),
    }  # fmt: skip


_SERVERS: dict[bool, _Server] = {}


def warm(*, hidden: bool) -> _Server:
    """Return the process that has imported the compiler, or is about to; it stays until this one ends."""
    server = _SERVERS.get(hidden)
    if server is None or not server.alive:
        if not _SERVERS:
            atexit.register(end_servers)
        if server is not None:
            server.close()
        server = _SERVERS[hidden] = _Server(hidden=hidden)
    return server


def end_servers() -> None:
    """End what has imported the compiler."""
    while _SERVERS:
        _SERVERS.popitem()[1].close()


class _Asked:
    """A request under way; the compiler's threads, caches and settings end with the process that answers it.

    Args:
        hidden: it sees no GPU, and writes for one by its figures: that takes seconds. On an H200 it took thirty.

    Attributes:
        late: it was waited for as long as anybody waits.
    """

    def __init__(self, request: str, *, hidden: bool) -> None:
        # Files, not pipes: nobody reads while it works.
        made = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115 - they end with this object
        self._given, self._out, self._errors = made
        processors = sorted(os.sched_getaffinity(0))
        asked = {
            "request": request,
            "environment": _environment(hidden=hidden),
            "processors": processors,
        }
        self._given.write(json.dumps(asked).encode())
        self._given.seek(0)
        self._alive, alive = os.pipe()
        # Where a GPU is used, the process is for one request: nothing else is to have met the device.
        self._own = None if hidden or _for_processor(request) else _Server(hidden=False)
        self._server = self._own or warm(hidden=hidden)
        files = [*(file.fileno() for file in made), alive]
        self._server.ask(files, processor=_for_processor(request))
        os.close(alive)
        self._pid = b""
        self._ended = self.late = False
        atexit.register(self.end)

    def answer(self) -> str:
        """Wait for it, and return its answer, or a reason."""
        try:
            if not self._wait(_SECONDS):
                self.late = True
                return json.dumps(
                    {"reason": f"torch.compile was still busy after {_SECONDS:.0f} s"}
                )
            text = _read(self._out)
            with suppress(ValueError):  # it may have ended while it wrote
                json.loads(text)
                return text
            said = _read(self._errors).strip() or self._server.said()
            last = (said.splitlines() or ["it said nothing"])[-1]
            reason = f"the process that asks torch.compile ended: {last[:300]}"
            return json.dumps({"reason": reason})
        finally:
            self.end()

    def _wait(self, seconds: float) -> bool:
        """Return whether it has ended after so many seconds at most."""
        end = time.monotonic() + seconds
        while (
            not self._ended
            and select.select([self._alive], [], [], max(0, end - time.monotonic()))[0]
        ):
            told = os.read(self._alive, 64)
            self._pid += told
            self._ended = not told
        return self._ended

    def end(self) -> None:
        """End it, where it still runs."""
        atexit.unregister(self.end)
        if not self._wait(0) and self._pid:
            with suppress(ProcessLookupError):
                os.kill(int(self._pid), signal.SIGKILL)
        os.close(self._alive)
        if self._own is not None:
            self._own.close()
        for file in (self._given, self._out, self._errors):
            file.close()


_BEGUN: dict[str, _Asked] = {}
_ANSWERED: dict[str, None] = {}  # refusals too, which no file keeps


def _ask(request: str) -> str:
    hidden = _has_figures(request)
    _ANSWERED[request] = None
    asked = _BEGUN.pop(request, None) or _Asked(request, hidden=hidden)
    told = asked.answer()
    # With the GPU it would take as long again.
    if hidden and not asked.late and "reason" in json.loads(told) and read_device(0) is not None:
        return _Asked(request, hidden=False).answer()
    return told


def _for_processor(request: str) -> bool:
    return bool(json.loads(request).get("device", "cpu") == "cpu")


def _has_figures(request: str) -> bool:
    return json.loads(request).get("figures") is not None


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _keep(file: Path, text: str) -> None:
    with suppress(OSError):  # a full disk costs seconds, no run
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=file.parent, delete=False, encoding="utf-8"
        ) as out:
            out.write(text)
        Path(out.name).replace(file)
        by_age = sorted(file.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in by_age[:-_KEPT]:
            old.unlink(missing_ok=True)


@cache
def _asked_of() -> str:
    """Return what an answer depends on besides the request: torch, its settings, this processor, our reader."""
    texts = [
        file.read_text(encoding="utf-8") for file in sorted(Path(__file__).parent.glob("*.py"))
    ]
    settings = sorted(item for item in os.environ.items() if item[0].startswith("TORCH"))
    versions = (
        sys.version_info[:2],
        version("torch"),
        version("triton") if find_spec("triton") else None,
    )
    gpu = read_device(0)  # where there are no figures of another
    if gpu is not None:  # what kind it is, not which one and how warm
        gpu = replace(gpu, index=0, uuid="", power_limit=None, state=None)
    parts = (versions, repr(gpu), settings, sorted(read_facts().flags), texts)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _told(request: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_answer(request))
    if "reason" in told:
        raise Uncaptured(told["reason"])
    return told
