import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.errors import TaskError
from search.evaluators.local import Local
from search.judging.cpu.judge import Judge
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


def test_a_zygote_that_was_killed_is_started_again(
    make_judge: Callable[..., Judge], norm_source: str
) -> None:
    judge = make_judge(norm_source)
    process = judge._zygote._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert judge.judge(HONEST).kind == "passed"


def test_closing_the_judge_leaves_no_process_behind(
    make_judge: Callable[..., Judge], norm_source: str
) -> None:
    judge = make_judge(norm_source)
    process = judge._zygote._process
    assert process is not None
    judge.close()
    assert _gone(process.pid)


def test_a_runner_dies_when_its_candidate_has_been_judged(
    norm: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = []
    real = Judge._worker

    def noted(self: Judge, prebuilt: dict[str, str]) -> object:
        worker = real(self, prebuilt)
        pids.append(worker.child.pid)
        return worker

    monkeypatch.setattr(Judge, "_worker", noted)
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


def test_a_confirmed_candidate_is_timed_longer(norm: Judge) -> None:
    evaluator = Local(norm)
    short, long = evaluator.evaluate(HONEST), evaluator.confirm(HONEST)
    assert short.kind == "passed"
    assert long.kind == "passed"
    assert long.samples > short.samples
    assert long.speedup["eager"].confidence >= 0.95


def test_what_a_run_needs_to_know_is_prepared(norm: Judge) -> None:
    prepared = norm.prepare()
    assert prepared.baselines["eager"] > 0
    assert prepared.compile_error is None
    assert not missing(prepared.sandbox)
    assert prepared.work is not None
    assert norm.prepare() is prepared


def test_forbidding_the_library_where_tracing_is_not_permitted_is_refused(
    make_judge: Callable[..., Judge], norm_source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("search.sandbox.ptrace._trace", never)
    with pytest.raises(TaskError, match="library: forbidden needs to trace"):
        make_judge(norm_source, library="forbidden")
    assert make_judge(norm_source).judge(HONEST).kind == "passed"


def test_constructor_arguments_that_cannot_cross_are_told(
    make_judge: Callable[..., Judge], norm_source: str
) -> None:
    source = norm_source.replace("def __init__(self, n):", "def __init__(self, n, f):").replace(
        "[256]", "[256, print]"
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
