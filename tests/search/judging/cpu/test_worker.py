import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.errors import TaskError
from search.judging.cpu.judge import CpuJudge
from search.profilers import sampling
from search.sandbox import sandbox
from search.sandbox.runner import decode, encode
from search.sandbox.sandbox import REQUIRED, missing, probe, system_paths

HONEST = """
import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
    def forward(self, x):
        return self.norm(x)
"""


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.slow
def test_a_zygote_that_was_killed_is_started_again(
    make_judge: Callable[..., CpuJudge], norm_source: str
) -> None:
    judge = make_judge(norm_source, alone=True)
    process = judge._zygote._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert judge.judge(HONEST).kind == "passed"


@pytest.mark.slow
def test_closing_the_judge_leaves_no_process_behind(
    make_judge: Callable[..., CpuJudge], norm_source: str
) -> None:
    judge = make_judge(norm_source, alone=True)
    process = judge._zygote._process
    assert process is not None
    judge.close()
    assert _gone(process.pid)


def test_a_runner_dies_when_its_candidate_has_been_judged(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = []
    real = CpuJudge._worker

    def noted(self: CpuJudge, prebuilt: dict[str, str]) -> object:
        worker = real(self, prebuilt)
        pids.append(worker.child.pid)
        return worker

    monkeypatch.setattr(CpuJudge, "_worker", noted)
    assert (
        norm.judge(
            "import torch.nn as nn\nclass ModelNew(nn.Module):\n    def __init__(self, n):\n        while True: pass\n".replace(
                "while True: pass", "raise ValueError"
            )
        ).kind
        == "build_failed"
    )
    assert norm.judge(HONEST).kind == "passed"
    end = time.monotonic() + 5
    while not all(map(_gone, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    assert len(pids) == 2
    assert all(map(_gone, pids))


@pytest.mark.slow
def test_a_confirmed_candidate_is_timed_longer(norm: CpuJudge) -> None:
    short, long = norm.judge(HONEST), norm.judge(HONEST, thorough=True)
    assert short.kind == "passed"
    assert long.kind == "passed"
    assert long.samples > short.samples
    assert long.speedup["eager"].confidence >= 0.95


def test_what_a_run_needs_to_know_is_prepared(norm: CpuJudge) -> None:
    prepared = norm.prepare()
    assert prepared.baselines["eager"] > 0
    assert prepared.compile_error is None
    assert not missing(prepared.sandbox)
    assert prepared.work is not None
    assert norm.prepare() is prepared


@pytest.mark.slow
def test_forbidding_the_library_where_the_kernel_does_not_tell_of_threads_is_refused(
    make_judge: Callable[..., CpuJudge], norm_source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("search.judging.cpu.looks.counter", lambda *_: None)
    with pytest.raises(TaskError, match="library: forbidden needs to see where candidates are"):
        make_judge(norm_source, library="forbidden")
    assert make_judge(norm_source).judge(HONEST).kind == "passed"


def test_forbidding_the_library_on_one_processor_whose_kernel_samples_nobody_is_refused(
    make_judge: Callable[..., CpuJudge], norm_source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(sampling.Sampled, "start", lambda _: False)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with pytest.raises(TaskError, match="takes a second processor here"):
            make_judge(norm_source, library="forbidden")
    finally:
        os.sched_setaffinity(0, allowed)


def test_constructor_arguments_that_cannot_cross_are_told(
    make_judge: Callable[..., CpuJudge], norm_source: str
) -> None:
    source = norm_source.replace("def __init__(self, n):", "def __init__(self, n, f):").replace(
        "[256]", "[256, len]"
    )
    with pytest.raises(TaskError, match="item 1 is a builtin_function_or_method"):
        make_judge(source)


def test_constructor_arguments_come_out_as_they_went_in() -> None:
    import torch

    values = [1, 2.5, None, True, "x", (1, [2, (3,)]), {"a": torch.float16}, torch.arange(3)]
    back = decode(encode(values))
    assert back[:7] == values[:7]
    assert torch.equal(back[7], values[7])
    with pytest.raises(TypeError):
        encode(object())


def test_every_part_of_the_sandbox_is_reported() -> None:
    parts = {part.name: part for part in probe()}
    assert set(REQUIRED) <= set(parts)
    assert all(part.detail for part in parts.values())


def test_no_home_and_no_checkout_is_readable_to_a_candidate() -> None:
    paths = [os.path.realpath(path) for path in system_paths()]
    here = str(Path(__file__).resolve())
    home = str(Path.home())
    assert not any(here.startswith(path + "/") for path in paths)
    assert home not in paths
    assert "/" not in paths


@pytest.mark.parametrize("path", ["pip.conf", "../.env", "lib/python.txt"])
def test_of_an_environment_only_the_installation_can_be_read(tmp_path: Path, path: str) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    file = tmp_path / "venv" / path
    file.write_text("token")
    code = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
        "from search.sandbox.sandbox import Cell, enter, missing\n"
        "cell = Cell(single=True, readable=(), writable=(), memory=1 << 30, cpu_seconds=9, file_bytes=1)\n"
        "assert not missing(enter(cell))\n"
        "open(sys.argv[2]).read()"
    )
    python = str(tmp_path / "venv" / "bin" / "python")
    done = subprocess.run(
        [python, "-I", "-c", code, json.dumps(sys.path), str(file)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if path.startswith("lib"):
        assert done.returncode == 0, done.stderr
    else:
        assert "PermissionError" in done.stderr


FILLS = """
import os
import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
    def forward(self, x):
        os.chdir({folder!r})
        for number in range({times}):
            {statement}
        while True:
            pass
"""


@pytest.mark.parametrize(
    ("times", "statement", "told"),
    [
        (40, "open(str(number), 'wb').write(bytes(1 << 20))", "more than 16 MiB"),
        (300, "open(str(number), 'wb')", "more than 200 files"),
        (900, "os.mkdir('d'); os.chdir('d')", "folders 65 deep"),
    ],
    ids=["bytes", "files", "depth"],
)
def test_a_candidate_that_fills_its_scratch_folder_is_ended(
    norm: CpuJudge,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    statement: str,
    told: str,
) -> None:
    monkeypatch.setattr(sandbox, "SCRATCH_BYTES", 16 << 20)
    monkeypatch.setattr(sandbox, "SCRATCH_ENTRIES", 200)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    real = CpuJudge._cell
    monkeypatch.setattr(
        CpuJudge,
        "_cell",
        lambda self, built: dataclasses.replace(real(self, built), writable=(str(scratch),)),
    )
    source = FILLS.format(folder=str(scratch), times=times, statement=statement)
    outcome = norm.judge(source)
    assert outcome.kind == "crashed", outcome
    assert told in outcome.reason
    sandbox.sweep(scratch)
    assert not scratch.exists()


SHARES = """
import mmap
import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
    def forward(self, x):
        kept = mmap.mmap(-1, 64 << 20)
        for page in range(0, 64 << 20, 4096):
            kept[page] = 1
        while True:
            pass
"""


def test_a_candidate_with_devices_that_takes_shared_memory_is_ended(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are devices the limit is on private data, which this is not."""
    real = CpuJudge._cell
    monkeypatch.setattr(
        CpuJudge,
        "_cell",
        lambda self, built: dataclasses.replace(
            real(self, built), devices=("/dev/null",), memory=32 << 20
        ),
    )
    outcome = norm.judge(SHARES)
    assert outcome.kind == "crashed", outcome
    assert "more than 32 MiB of shared" in outcome.reason


def test_a_folder_deeper_than_python_can_follow_is_removed(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    here = os.open(deep, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    sandbox.sweep(deep)
    assert not deep.exists()
