"""The contract of every judge. A member's tests inherit it and say how the judge and two kernels are made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from search.judging import Judge
from search.outcome import STANDING, Crashed, Wrong, from_json, to_json

_MODEL = (
    "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, *inputs):\n        {}\n"
)
CRASHING = _MODEL.format("import os; os.abort()")
FAULTS = {
    "it is empty": "",
    "it is no Python": "class ModelNew(:",
    "it has no ModelNew": "import torch",
    "it raises when it is imported": "raise ValueError('no')",
    "it leaves when it is imported": "raise SystemExit(0)",
    "it raises in a call": _MODEL.format("raise KeyError(inputs)"),
    "it returns nothing": _MODEL.format("return None"),
    "it returns a tuple of too many": _MODEL.format("return (*inputs, *inputs, *inputs)"),
    "its model is a number": "ModelNew = 3",
    "half a letter stands in it": "x = '\ud800'",
    "a thousand terms stand in it": f"x = {' + '.join(['1'] * 3000)}",
}


class JudgeContract:
    """What holds for each judge, wherever it judges.

    Members define the fixtures `judge` (not prepared before the first test), `make_judge`, `right` and
    `wrong`: sources for the judge's task.
    """

    def test_preparing_twice_prepares_once(self, judge: Judge) -> None:
        told: list[str] = []
        prepared = judge.prepare(told.append)
        assert judge.prepare(told.append) is prepared

    def test_a_right_kernel_stands(self, judge: Judge, right: str) -> None:
        outcome = judge.judge(right)
        assert outcome.kind in STANDING, outcome
        assert outcome.max_error <= outcome.allowed_error

    def test_a_wrong_one_is_wrong(self, judge: Judge, wrong: str) -> None:
        assert isinstance(judge.judge(wrong), Wrong)

    def test_one_that_crashes_has_crashed_and_the_next_is_judged(
        self, judge: Judge, right: str
    ) -> None:
        outcome = judge.judge(CRASHING)
        assert isinstance(outcome, Crashed), outcome
        assert judge.judge(right).kind in STANDING

    @pytest.mark.parametrize("source", FAULTS.values(), ids=FAULTS)
    def test_what_a_candidate_does_wrong_is_an_outcome(self, judge: Judge, source: str) -> None:
        outcome = judge.judge(source)
        assert outcome.kind not in STANDING
        reason = getattr(outcome, "reason", "")
        assert reason
        assert "\n" not in reason
        assert from_json(to_json(outcome)) == outcome

    def test_what_is_not_prepared_prepares_itself_and_is_closed_twice(
        self, make_judge: Callable[[], Judge], wrong: str
    ) -> None:
        judge = make_judge()
        assert isinstance(judge.judge(wrong), Wrong)
        judge.close()
        judge.close()

    def test_what_was_never_asked_can_be_closed(self, make_judge: Callable[[], Judge]) -> None:
        make_judge().close()

    # The last: a judge that is a trip away starts another process for it.
    def test_a_right_kernel_stands_when_it_is_measured_for_the_report(
        self, judge: Judge, right: str
    ) -> None:
        assert judge.judge(right, thorough=True).kind == judge.judge(right).kind
