"""What becomes of a timed answer that is not near the framework's; the comparison needs no device."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from search.judging import bounds
from search.judging.checks import surely_right
from search.judging.cpu import session as cpu_session
from search.judging.cuda import session
from search.judging.cuda.runner import _aliased
from search.judging.cuda.session import CudaCandidateSession
from search.judging.redraw import RedrawnTrials
from search.judging.tolerance import make_trials
from search.judging.trial import RowCut, TrialSet
from search.judging.truth.reference import Truth
from search.outcome import Wrong
from search.reference import Problem, load_problem
from search.sandbox.faults import Fault
from search.task import Task

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return x @ y
def get_inputs():
    return [torch.randn(32, 512), torch.randn(512, 24)]
"""


@pytest.fixture
def check(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[torch.Tensor], torch.Tensor]], None]:
    """Return what compares a batch of one call, whose answer is a change of the framework's."""
    problem = load_problem(make_task(SOURCE))
    trials = make_trials(problem, 3)
    trial = next(one for one in trials.trials if one.distribution == "spiked far")
    # As where one element decides how exact an answer can be: the bounds of other inputs of the kind do not fit.
    monkeypatch.setattr(session, "agrees", lambda *_: False)
    inputs = problem.draw(11)

    def run(
        change: Callable[[torch.Tensor], torch.Tensor], *, before: int = 0, took: float = 0.0
    ) -> None:
        candidate = CudaCandidateSession.__new__(CudaCandidateSession)
        answer = (change(problem.run(*inputs)[0]),)
        parts: dict[str, Any] = {
            "_problem": problem,
            "_trial_set": trials,
            "_state": None,
            "_bounded": before,
            "_bounding": took,
            "_mirror": SimpleNamespace(results=(answer,)),
            "_cuda_arena": SimpleNamespace(results=(answer,)),
            "_check_inputs": lambda *_: None,
            "batches": SimpleNamespace(settle=lambda _: None, scarce=False),
        }
        for name, value in parts.items():
            setattr(candidate, name, value)
        draws = SimpleNamespace(make=lambda _: inputs)
        candidate.check_batch(None, cast("Any", (draws, [SimpleNamespace(trial=trial)])))

    return run


def test_one_that_its_own_inputs_allow_is_right(check: Callable[..., None]) -> None:
    check(lambda y: y)


def test_one_that_they_do_not_allow_is_wrong(check: Callable[..., None]) -> None:
    with pytest.raises(Fault) as raised:
        check(lambda y: y * 1.01)
    assert isinstance(raised.value.outcome, Wrong)


def test_after_many_that_were_right_each_is_looked_at_while_there_is_time(
    check: Callable[..., None],
) -> None:
    check(lambda y: y, before=1000, took=1.0)
    with pytest.raises(Fault):
        check(lambda y: y * 1.01, before=1000, took=1.0)


def test_after_many_that_took_long_one_in_some_is_looked_at(check: Callable[..., None]) -> None:
    passed = 0
    with pytest.raises(Fault):
        for passed in range(500):
            check(lambda y: y * 1.01, before=1000, took=60.0)
    assert passed < 499
    for _ in range(50):
        check(lambda y: y, before=1000, took=60.0)


def test_the_last_rows_are_looked_at_where_rows_are_looked_at_in_turn(
    check: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    bounds_of, parts = cpu_session.bounds_of, cast("Any", TrialSet.parts)

    def few(problem: Any, trials: Any, name: str, inputs: Any, *rest: Any) -> Any:
        asked.append(len(inputs[0]))
        return bounds_of(problem, trials, name, inputs, *rest)

    cut = RowCut(inputs=(True, False), rows=(slice(0, 16), slice(16, None)))
    monkeypatch.setattr(cpu_session, "bounds_of", few)
    monkeypatch.setattr(TrialSet, "parts", lambda _, *given: parts(SimpleNamespace(cut=cut), *given))
    check(lambda y: y)
    assert asked == [16, 16]
    with pytest.raises(Fault):
        check(lambda y: torch.cat([y[:-1], y[-1:] * 1.01]))


def test_a_device_without_memory_for_the_bounds_lets_nothing_pass(
    check: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr("search.judging.cpu.session.bounds_of", full)
    with pytest.raises(torch.OutOfMemoryError):  # of which the judge makes its own outcome
        check(lambda y: y)


SHARED = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        return x.t(), x * 2, y, y[0]
def get_inputs():
    return [torch.randn(8, 8)]
"""


@pytest.mark.parametrize(
    ("said", "trick"),
    [
        ({"inside": [0], "aliased": [2, 3]}, None),
        ({"inside": [0, 1], "aliased": []}, "input-alias"),
        ({"inside": [], "aliased": [1, 2]}, "aliased-outputs"),
        ({"inside": True, "aliased": ["1"]}, None),  # no runner says that, and it says nothing
    ],
)
def test_only_outputs_that_share_memory_in_the_reference_may_share_it(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], trick: str | None
) -> None:
    problem = load_problem(make_task(SHARED))
    monkeypatch.setattr(session, "check_outputs", lambda *_: None)
    answer = problem.run(*problem.draw(1))
    candidate = CudaCandidateSession.__new__(CudaCandidateSession)
    parts: dict[str, Any] = {
        "_problem": problem,
        "_earlier": None,
        "_mirror": SimpleNamespace(results=(answer,)),
        "_cuda_arena": SimpleNamespace(again=answer),
    }
    for name, value in parts.items():
        setattr(candidate, name, value)
    batch = cast("Any", SimpleNamespace(told=said))
    if trick is None:
        candidate._check_told(batch)
        return
    with pytest.raises(Fault) as refused:
        candidate._check_told(batch)
    assert getattr(refused.value.outcome, "trick", "") == trick


def test_outputs_that_share_memory_are_told_by_number() -> None:
    y = torch.zeros(4)
    assert _aliased((y, torch.zeros(4), y[1:], None)) == [0, 2]
    assert _aliased(y) == []


def session_of(problem: Problem, trials: TrialSet) -> CudaCandidateSession:
    """Return what compares answers to trials; it has no runner."""
    candidate = CudaCandidateSession.__new__(CudaCandidateSession)
    parts: dict[str, Any] = {
        "_problem": problem, "_trial_set": trials, "max_error": 0.0, "allowed_error": 0.0,
        "_copies": False, "single": SimpleNamespace(running=False), "batches": SimpleNamespace(scarce=True),
    }  # fmt: skip
    for name, value in parts.items():
        setattr(candidate, name, value)
    return candidate


def test_an_answer_of_which_nothing_fits_is_compared_some_rows_at_a_time(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "_ROWS", 1 << 16)
    wide = SOURCE.replace("32, 512", "4096, 16").replace("512, 24", "16, 64")
    problem = load_problem(make_task(wide))
    trials, call = make_trials(problem, 3, room=0), Truth.__call__
    candidate, asked = session_of(problem, trials), list[int]()

    def watched(self: Truth, inputs: Any, *rest: Any, **options: Any) -> Any:
        asked.append(len(inputs[0]))
        return call(self, inputs, *rest, **options)

    def whole(*_: object) -> None:
        raise AssertionError("the bounds of all rows were asked for")

    monkeypatch.setattr(RedrawnTrials, "_bounded", whole)
    trials.forget()
    for number, trial in enumerate(trials.trials):
        assert trial.cut is not None
        assert trial.part is not None
        near = [trial.part(rows) for rows in trial.cut.rows]
        # Within its bounds, and too far from the framework's answer to be taken without them.
        answer = torch.cat([part.low[0] + 0.9 * (part.high[0] - part.low[0]) for part in near])
        assert not surely_right(problem, trial, (answer,), problem.run(*trial.given()))  # type: ignore[misc]
        monkeypatch.setattr(Truth, "__call__", watched)
        candidate._compare(number, (answer,))
        assert set(asked) <= {1024}
        assert len(asked) == len(near)
        answer[-1, -1] = near[-1].high[0][-1, -1] + 9 * (near[-1].high[0] - near[-1].low[0]).max()
        with pytest.raises(AssertionError, match="all rows"):  # to say how it is wrong
            candidate._compare(number, (answer,))
        monkeypatch.setattr(Truth, "__call__", call)
        asked.clear()
        trials.forget()
    assert 0.7 < candidate.max_error / candidate.allowed_error < 0.9


@pytest.mark.parametrize("spoiled", [None, 0, 3])
def test_bounds_of_a_timed_call_are_asked_for_of_all_its_parts_or_of_none(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, spoiled: int | None
) -> None:
    problem = load_problem(make_task(SOURCE))
    trials = make_trials(problem, 3)
    candidate, looked = session_of(problem, trials), list[int]()
    candidate._state, candidate._bounded, candidate._bounding = None, 31, 9.0
    cut = RowCut(inputs=(True, False), rows=tuple(slice(n, n + 8) for n in range(0, 32, 8)))
    parts = cast("Any", TrialSet.parts)
    monkeypatch.setattr(TrialSet, "parts", lambda _, *given: parts(SimpleNamespace(cut=cut), *given))
    monkeypatch.setattr(session, "agrees", lambda *_: False)
    monkeypatch.setattr(cpu_session._chance, "randrange", lambda _: 1)  # later calls are not looked at

    def within(drawn: Any, *_: object) -> bool:
        looked.append(len(looked))
        return looked[-1] != spoiled

    monkeypatch.setattr(candidate, "_part_within", within)
    inputs = problem.draw(11)
    given = cast("Any", SimpleNamespace(trial=trials.trials[0]))
    failed = candidate._failed(given, inputs, problem.run(*inputs))
    assert (failed is None) is (spoiled is None)
    assert looked == list(range(4 if spoiled is None else spoiled + 1))
    looked.clear()
    assert candidate._failed(given, inputs, problem.run(*inputs)) is None  # the thirty-third
    assert not looked


@pytest.mark.parametrize("scarce", [False, True])
def test_a_timed_call_of_which_a_part_is_wrong_is_blamed_where_calls_are_many_or_one(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, scarce: bool
) -> None:
    problem = load_problem(make_task(SOURCE))
    candidate = session_of(problem, make_trials(problem, 3))
    cut = RowCut(inputs=(True, False), rows=(slice(0, 16), slice(16, None)))
    parts = cast("Any", TrialSet.parts)
    monkeypatch.setattr(TrialSet, "parts", lambda _, *given: parts(SimpleNamespace(cut=cut), *given))
    draws = [problem.draw(seed) for seed in (11, 12)]
    answers = [tuple(value.clone() for value in problem.run(*one)) for one in draws]
    answers[-1][0][20, 3] += 1
    made = {
        "_state": None, "_bounded": 0, "_bounding": 0.0, "_check_inputs": lambda *_: None,
        "_mirror": SimpleNamespace(results=tuple(answers[scarce:])),
        "_cuda_arena": SimpleNamespace(results=tuple(answers[scarce:])),
        "batches": SimpleNamespace(scarce=scarce, settle=lambda _: None),
    }  # fmt: skip
    for name, value in made.items():
        setattr(candidate, name, value)
    each = [SimpleNamespace(trial=candidate._trial_set.trials[0], inputs=one) for one in draws]
    source = cast("Any", SimpleNamespace(make=lambda one: one.inputs))
    with pytest.raises(Fault) as wrong:
        candidate.check_batch(None, (source, cast("Any", each[scarce:])))
    assert isinstance(wrong.value.outcome, Wrong)
    assert "a timed call" in wrong.value.outcome.reason
