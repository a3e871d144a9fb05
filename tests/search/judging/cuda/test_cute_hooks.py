"""CuTe DSL in a runner on a GPU: what can be seen of it with the real package and no device."""

from __future__ import annotations

import json
import socket
import threading
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from search.sandbox.shared_memory import Arena, plan
from search.judging.cuda.cute_hooks import ENVIRONMENT, WHAT
from search.judging.cuda.worker import CudaWorker, runner_cell, runner_environment
from search.sandbox.faults import Fault
from search.sandbox.runner_handle import Worker
from search.sandbox.zygote import Zygote

needs_package = pytest.mark.skipif(
    find_spec("cutlass") is None,
    reason="nvidia-cutlass-dsl is not installed: pip install 'kernel-kb[cute]' (some 300 MB)",
)
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


@needs_package
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


BEHIND = """
import os
import cutlass
import cutlass.cute as cute
import cutlass.utils
import cuda.bindings.driver
from cutlass.cute.runtime import make_fake_compact_tensor

@cute.kernel
def twice_kernel(x: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    x[i] = x[i] * 2.0

@cute.jit
def twice(x: cute.Tensor):
    twice_kernel(x).launch(grid=[1, 1, 1], block=[32, 1, 1])

x = make_fake_compact_tensor(cutlass.Float32, (64,), stride_order=(0,), assumed_align=16)
symbols = list(cute.compile(twice, x).kernel_info)
assert len(symbols) == 1 and symbols[0].startswith("kernel_cutlass_twice_kernel_"), symbols

class ModelNew:
    def __init__(self): ...
"""


@needs_package
def test_the_package_imports_and_compiles_behind_the_walls_of_a_runner(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    values = runner_environment(scratch, {"CUTE_DSL_ARCH": "sm_90a"})
    layout = plan((), {}, ())
    zygote, arena = Zygote(), Arena.create(layout)
    # As a runner on a GPU, but for the device: no context is made, nothing is launched.
    worker = Worker(zygote, arena, runner_cell(scratch, ()), None, {"environment": values})
    worker.ready()
    try:
        message = {
            "op": "load",
            "source": BEHIND,
            "prebuilt": {},
            "seed": 0,
            "init": [],
            "layout": layout,
        }
        answer = worker.ask({**message, "packing": False}, 60.0)
        assert answer == {"state": {}}, answer
    finally:
        worker.close()
        zygote.close()
        arena.close()


@pytest.fixture
def pair() -> Iterator[tuple[CudaWorker, socket.socket]]:
    """A worker whose runner is this test."""
    worker = CudaWorker.__new__(CudaWorker)
    worker._socket, theirs = socket.socketpair()
    worker._pending, worker._writable = b"", ()
    worker._heard, worker._patience = deque(), 300.0
    worker._cell = None
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


def test_a_candidate_that_says_so_in_every_call_has_it_once(
    pair: tuple[CudaWorker, socket.socket],
) -> None:
    worker, theirs = pair
    worker._patience = 30.0
    saying = json.dumps({"compile": {"what": WHAT}}).encode() + b"\n"
    theirs.sendall(saying)
    late = threading.Timer(0.15, theirs.sendall, (b'{"outputs": []}\n',))
    late.start()
    assert worker._receive(time.monotonic() + 0.1, 0.1) == {"outputs": []}
    late.join()
    assert worker._patience < 30.0
    worker._patience = 0.0  # all calls together have used it up
    theirs.sendall(saying)
    with pytest.raises(Fault):
        worker._receive(time.monotonic() + 0.05, 0.05)
