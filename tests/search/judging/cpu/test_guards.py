"""Each guard is what stops its cheat: with the guard away, the same cheat passes."""

import dataclasses
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from search import reference as problem_module
from search import seeds
from search.judging.corpus.cases import load_cases, reference_source
from search.judging.cpu import calls, glances, kept
from search.judging.cpu.calls import Calls
from search.judging.cpu.draws import RoundDraws
from search.judging.cpu.judge import CpuJudge
from search.judging.cpu.session import CandidateSession

CHEATS = Path(__file__).parent / "cheats"


def _passes(judge: CpuJudge, cheat: str) -> bool:
    return judge.judge((CHEATS / f"{cheat}.py").read_text()).kind == "passed"


def test_without_the_comparison_of_inputs_a_mutation_passes(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not _passes(norm, "mutates_input")
    monkeypatch.setattr(calls, "check_inputs", lambda *_: None)
    assert _passes(norm, "mutates_input")


def test_without_a_look_at_where_answers_lie_a_reused_buffer_passes(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not _passes(norm, "reused_buffer")
    read = Calls._read_answer
    monkeypatch.setattr(kept.KeptAnswers, "check", lambda *_: None)
    monkeypatch.setattr(Calls, "_write_over", lambda *_: None)
    monkeypatch.setattr(Calls, "_read_answer", lambda self, recheck: read(self, recheck=False))
    assert _passes(norm, "reused_buffer")


@pytest.mark.slow
def test_without_an_answer_that_stays_alive_buffers_that_take_turns_pass(
    make_judge: Callable[..., CpuJudge], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = make_judge(reference_source("cpu", "relu"))
    assert not _passes(judge, "takes_turns_with_many_buffers")
    monkeypatch.setattr(kept.secrets, "randbelow", lambda _: -1)
    assert _passes(judge, "takes_turns_with_many_buffers")


@pytest.mark.slow
def test_where_answers_are_not_written_over_parts_of_old_ones_can_be_kept(
    make_judge: Callable[..., CpuJudge], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = make_judge(reference_source("cpu", "triangle"))
    assert not _passes(judge, "keeps_zeros_in_its_memory")
    monkeypatch.setattr(Calls, "_write_over", lambda *_: None)
    assert _passes(judge, "keeps_zeros_in_its_memory")


@pytest.mark.slow
def test_without_copies_of_its_inputs_a_program_may_remember_where_the_first_lay(
    make_judge: Callable[..., CpuJudge], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = make_judge(reference_source("cpu", "growth"))
    case = next(x for x in load_cases("cpu", ("cheats",)) if x.name == "remembers_where_its_inputs_lay")
    assert judge.judge(case.source).kind == "wrong"
    call = Calls.call
    monkeypatch.setattr(Calls, "call", lambda self, **given: call(self, **{**given, "copies": False}))
    assert judge.judge(case.source).kind == "passed"


def test_without_a_large_mean_a_cancelling_variance_passes(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tuple(
        trial for trial in norm._trial_set.trials if trial.distribution in {"task", "normal", "sparse"}
    )
    fewer = dataclasses.replace(norm._trial_set, trials=kept)
    monkeypatch.setattr(norm, "_trial_set", fewer)
    monkeypatch.setattr(norm, "_draws", RoundDraws(norm._problem, fewer))
    assert _passes(norm, "cancelling_variance")


@pytest.mark.slow
@pytest.mark.parametrize("cheat", ["ignores_bias", "ignores_gain", "packs_too_early"])
def test_without_the_perturbation_of_parameters_they_can_be_left_out(
    make_judge: Callable[..., CpuJudge],
    monkeypatch: pytest.MonkeyPatch,
    cheat: str,
    norm_source: str,
) -> None:
    monkeypatch.setattr(problem_module, "_perturbed", lambda _model, initial, _seed: dict(initial))
    assert _passes(make_judge(norm_source), cheat)


def test_without_the_check_of_timed_outputs_an_answer_can_be_kept(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CandidateSession, "check_timed", lambda *_: None)
    assert _passes(norm, "cached_once_timed")


@pytest.mark.slow
def test_without_secret_seeds_a_candidate_knows_its_inputs_beforehand(
    make_judge: Callable[..., CpuJudge], monkeypatch: pytest.MonkeyPatch, norm_source: str
) -> None:
    monkeypatch.setattr(seeds, "secret", lambda: 0)
    monkeypatch.setattr(seeds, "_filled", lambda state, _: state)
    assert _passes(make_judge(norm_source), "predicts_its_inputs")


@pytest.mark.slow
@pytest.mark.parametrize("cheat", ["deferred_work", "says_done_too_early"])
def test_without_stopping_the_runner_at_once_work_after_the_clock_passes(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch, cheat: str
) -> None:
    stop = Calls._stop

    monkeypatch.setattr(glances, "_SHARE", 0.0)

    def passes(seconds: float) -> bool:
        def late(self: Calls) -> None:
            time.sleep(seconds)
            stop(self)

        monkeypatch.setattr(Calls, "_stop", late)
        return _passes(norm, cheat)

    # 30 ms are enough for the work on a quiet machine; on a busy one it may wait longer for a processor.
    assert any(passes(seconds) for seconds in (0.03, 0.03, 0.1, 0.1, 0.3))


@pytest.mark.slow
def test_without_a_glance_at_an_answer_when_done_is_said_a_call_of_the_system_may_finish_it(
    make_judge: Callable[..., CpuJudge], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glances, "_SHARE", 0.0)
    judge = make_judge(reference_source("cpu", "joined"))
    assert _passes(judge, "has_the_kernel_finish_its_answer")


@pytest.mark.parametrize(
    "statement",
    [
        "open({secret!r}).read()",
        "open({folder!r} + '/written', 'w').write('x')",
        "import os; os.fork() or os._exit(0)",
        "import socket; socket.create_connection(('127.0.0.1', {port}), 1)",
        "import os; os.sched_setaffinity(0, os.sched_getaffinity(0))",
        "import subprocess; subprocess.run(['true'], check=True)",
        "import os; open('/proc/%d/environ' % os.getppid(), 'rb').read(1)",
        "import os; os.kill(os.getppid(), 0)",
    ],
)
@pytest.mark.parametrize("confined", [False, True])
def test_what_the_sandbox_refuses_works_outside_it(
    tmp_path: Path, statement: str, confined: bool
) -> None:
    (tmp_path / "secret").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = statement.format(
            secret=str(tmp_path / "secret"), folder=str(tmp_path), port=server.getsockname()[1]
        )
        enter = (
            "from search.sandbox.sandbox import Cell, enter, missing\n"
            "cell = Cell(single=True, readable=(), writable=(), memory=1 << 30, cpu_seconds=9, file_bytes=1 << 20)\n"
            "assert not missing(enter(cell))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", "import socket, subprocess\n" + (enter if confined else "") + line],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode == 0) is not confined, done.stderr
    if confined:
        assert "PermissionError" in done.stderr
