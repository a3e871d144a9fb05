"""CuTe DSL in a runner on a GPU: what can be seen of it with the real package and no device."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from search.judging.cuda.cute_hooks import ENVIRONMENT, WHAT
from search.judging.cuda.worker import CudaWorker
from search.judging.worker import Fault

PROGRAM = """
import cutlass, cutlass.cute as cute
import numpy
from cutlass._mlir.execution_engine import ExecutionEngine
from cutlass.base_dsl.jit_executor import JitCompiledFunction
from cutlass.cute.runtime import from_dlpack
from search.judging.cuda import cute_hooks

told = []
cute_hooks.install(told.append)

@cute.kernel
def twice_kernel(x: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    x[i] = x[i] * 2.0

@cute.jit
def twice(x: cute.Tensor):
    twice_kernel(x).launch(grid=[1, 1, 1], block=[32, 1, 1])

def flat(size):
    return from_dlpack(numpy.zeros(size, numpy.float32))

cute.compile(twice, flat(64))
assert told == [{"what": "cute"}], told
JitCompiledFunction.run_compiled_program = lambda *_: None  # there is no device to launch on
for size in (64, 64, 64, 128):
    twice(flat(size))
print(len(told))
"""


@pytest.mark.skipif(find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed")
def test_the_judge_is_told_of_each_compilation_and_not_of_calls(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {
        **ENVIRONMENT,
        "TMPDIR": str(tmp_path),
        "CUTE_DSL_ARCH": "sm_90a",
        "PYTHONPATH": ":".join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "3", (
        "one for cute.compile, one for each shape called directly"
    )


@pytest.fixture
def pair() -> Iterator[tuple[CudaWorker, socket.socket]]:
    """A worker whose runner is this test."""
    worker = CudaWorker.__new__(CudaWorker)
    worker._socket, theirs = socket.socketpair()
    worker._pending = b""
    silent, held = socket.socketpair()
    worker.child = SimpleNamespace(handle=silent.fileno(), log=str)  # type: ignore[assignment]
    worker._compiler = SimpleNamespace()  # type: ignore[assignment] # asked of nothing here
    yield worker, theirs
    for one in (worker._socket, theirs, silent, held):
        one.close()


def test_a_function_that_compiles_has_more_time_than_a_call(
    pair: tuple[CudaWorker, socket.socket],
) -> None:
    worker, theirs = pair
    lines: tuple[object, ...] = ({"compile": {"what": WHAT}}, {"outputs": []})
    theirs.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert worker._receive(time.monotonic() + 1, 1) == {"outputs": []}
    theirs.settimeout(0.05)
    with pytest.raises(TimeoutError):
        theirs.recv(1)  # what is told is not answered: nobody waits in a timed call


def test_a_call_that_only_says_that_it_compiles_ends_nevertheless(
    pair: tuple[CudaWorker, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, theirs = pair
    monkeypatch.setattr("search.judging.cuda.worker._MOST_COMPILING", 0.1)
    theirs.sendall(json.dumps({"compile": {"what": WHAT}}).encode() + b"\n")
    with pytest.raises(Fault):
        worker._receive(time.monotonic() + 0.1, 0.1)
