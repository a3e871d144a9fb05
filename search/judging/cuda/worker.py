"""The judge's hold on a runner on the GPU, and on the next ones, which start meanwhile."""

from __future__ import annotations

import json
import re
import select
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from search.judging.cuda import cute_hooks
from search.judging.cuda.compiling import Compiler
from search.judging.cuda.memory import Regions
from search.languages.cute import package_folders
from search.sandbox.faults import Fault
from search.sandbox.runner_handle import Worker
from search.sandbox.sandbox import Cell, gpu_devices, sweep
from search.sandbox.shared_memory import Arena, plan
from search.sandbox.zygote import Zygote

_MEMORY = 16 << 30
# Seconds that one answer, and all answers of a candidate, may spend on it, an autotuner's many kernels
# included.
_MOST_COMPILING, _ALL_COMPILING = 120.0, 300.0
_IMPORTING = 120.0  # seconds that torch.compile's parts may take, from a cold disk
_CUTE_COMPILING = 60.0  # seconds that one function in CuTe DSL may take, in the runner itself
# What a Python program under CUDA may need of its environment; the rest is not there to be read.
_CALM = {
    "CUDA_CACHE_DISABLE": "1",
    "CUDA_MODULE_LOADING": "LAZY",
    **cute_hooks.ENVIRONMENT,
}
# What makes streams of its own; the layers do in the vendor's library.
_STREAMS = re.compile(r"\bStream\b|StreamCreate|StreamFromPool|LSTM|GRU|RNN")


def make_zygote() -> Zygote:
    """Return the warm process for this machine's device, not yet started."""
    import torch

    major, minor = torch.cuda.get_device_capability()
    return Zygote(10 * major + minor)


def makes_streams(source: str) -> bool:
    """Return whether a candidate may use several streams, by its text. One that hides it has two queues for them."""
    return _STREAMS.search(source) is not None


def hardware_queues(*, several_streams: bool) -> dict[str, str]:
    """Return what of a runner's environment says how many of the device's queues its streams may use.

    A context with two is made in half of the time that one with eight takes, CUDA's default, and ends sooner.
    """
    return {} if several_streams else {"CUDA_DEVICE_MAX_CONNECTIONS": "2"}


def runner_environment(scratch: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a runner that may write to `scratch` alone."""
    own = {
        "TMPDIR": "",
        "TRITON_CACHE_DIR": "triton",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "HOME": "",
        **dict.fromkeys(cute_hooks.SCRATCH, ""),
    }
    return {**_CALM, **{name: str(scratch / part) for name, part in own.items()}, **more}


def runner_cell(scratch: Path, builds: Iterable[Path]) -> Cell:
    """Return the walls around a candidate on a GPU; `builds`: folders that it may read."""
    return Cell(
        single=True,
        readable=(*(str(path) for path in builds), *package_folders()),
        writable=(str(scratch),),
        memory=_MEMORY,
        cpu_seconds=3600,
        file_bytes=256 << 20,
        devices=gpu_devices(),
    )


class CudaWorker(Worker):
    """A runner with a context on the device.

    It brings the driver up when the constructor returns, which disturbs no measurement, and makes its context after `begin`.

    Args:
        compiler: answers its compilations, None for the user's own reference, which compiles itself.
        builds: folders with what was compiled for it.
    """

    def __init__(
        self,
        zygote: Zygote,
        compiler: Compiler | None,
        *,
        builds: tuple[Path, ...],
        environment: Mapping[str, str],
    ) -> None:
        self.words = Arena.create(plan((), {}, ()))
        self._compiler = compiler
        self._scratch = Path(tempfile.mkdtemp(prefix="kb-runner-"))
        self.kernels: frozenset[str] = frozenset()
        self.reports: tuple[str, ...] = ()
        self.compile_seconds = 0.0
        self._patience = _ALL_COMPILING
        self._heard: deque[dict[str, Any]] = deque()
        self._latest = 0.0
        self._begun = 0  # what it was told to do when its context is made
        self.regions: Regions | None = None  # the judge's memory that it was told to open
        values = runner_environment(self._scratch, environment)
        cell = None if compiler is None else runner_cell(self._scratch, builds)
        try:
            extra = {"device": "cuda", "environment": values}
            super().__init__(zygote, self.words, cell, None, extra)
        except BaseException:
            self._discard()
            raise

    def begin(self, *asked: Mapping[str, Any]) -> None:
        """Have it make its context, and then do what is asked; `ready` waits for all of it."""
        with suppress(Fault):  # of what it has died, `ready` says
            self.tell({"op": "begin"})
            for message in asked:
                self.tell(dict(message))
                self._begun += 1

    def begin_import(self) -> None:
        """Have it make its context, and import torch.compile's parts."""
        self.begin({"op": "import_compiler"})

    def begin_sharing(self, regions: Regions, layout: Mapping[str, Any]) -> None:
        """Have it make its context, and open the judge's memory."""
        self.regions = regions
        self.begin({"op": "share", "layout": layout})

    def ready(self) -> None:
        """Wait until its context is made and its walls stand.

        Raises:
            Fault: it died while it started.
            ToolchainError: this machine cannot confine candidates.
        """
        super().ready()
        while self._begun:
            self._begun -= 1
            self.answer(_IMPORTING)  # what it cannot do, it will say when that is needed

    def _receive(self, end: float, seconds: float) -> dict[str, Any]:
        if self._heard:
            return self._heard.popleft()
        due = end
        self._latest = end + min(_MOST_COMPILING, self._patience)
        while True:
            answer = super()._receive(end, seconds)
            if "compile" not in answer or self._compiler is None:
                self._patience -= max(0.0, time.monotonic() - due)
                return answer
            end = self._compile(answer["compile"], end, seconds)

    def attend(self, end: float, seconds: float) -> float:
        """Compile what the runner asks for in the middle of a call; return when that must have ended.

        What it says besides is kept for `answer`.
        """
        while b"\n" in self._pending or select.select([self._socket], [], [], 0)[0]:
            told = super()._receive(time.monotonic() + seconds, seconds)
            if "compile" in told and self._compiler is not None:
                began = time.monotonic()
                end = self._compile(told["compile"], end, seconds)
                self._patience = max(0.0, self._patience - (time.monotonic() - began))
            else:
                self._heard.append(told)
        return end

    def allow(self, seconds: float) -> None:
        """Let the next call spend so much more on compiling than it may take, at most."""
        self._latest = time.monotonic() + seconds + min(_MOST_COMPILING, self._patience)

    def _compile(self, request: Any, end: float, seconds: float) -> float:
        """Answer one request to compile; return when what it was asked in must have ended."""
        if request == {"what": cute_hooks.WHAT}:
            return min(time.monotonic() + max(seconds, _CUTE_COMPILING), self._latest)
        assert self._compiler is not None
        began = time.monotonic()
        told, names, report = self._compiler.answer(request)
        self.kernels |= names
        if report:
            self.reports += (report,)
        try:
            self._socket.sendall(json.dumps(told).encode() + b"\n")
        except OSError:
            raise self.dead() from None  # it did not wait for the answer
        self.compile_seconds += time.monotonic() - began
        # What came before was compiling too: its time begins anew, but not for ever.
        return max(end, min(time.monotonic() + seconds, self._latest))

    def close(self) -> None:
        """Kill it."""
        super().close()
        self._discard()

    def _discard(self) -> None:
        self.words.close()
        sweep(self._scratch)
