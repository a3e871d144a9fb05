import json
from typing import Any

import pytest

from search.judging.cpu.judge import CpuJudge
from search.judging.cpu.session import CandidateSession
from search.outcome import KernelTime, Passed, Wrong
from search.sandbox.faults import Fault, bounded, charged, read_message

HONEST = """
import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
    def forward(self, x):
        return self.norm(x)
"""
MARKED = HONEST + "\nMARK = 1\n"


def test_what_a_runner_tells_is_cut_at_the_door() -> None:
    told = {"outputs": ["a" * 1000], "b" * 1000: 1, "raised": {"message": "m" * 5000}}
    answer = read_message(json.dumps(told).encode())
    assert answer == {"outputs": ["a" * 300], "b" * 300: 1, "raised": {"message": "m" * 2000}}


def test_names_of_kernels_and_texts_to_compile_keep_their_length() -> None:
    told = {"timeline": {"names": ["k" * 3000]}, "compile": {"text": "p" * 100_000}}
    assert read_message(json.dumps(told).encode()) == told


def test_half_a_character_is_replaced() -> None:
    assert read_message(b'{"type": "a\\ud800b"}') == {"type": "a?b"}


@pytest.mark.parametrize(
    "line",
    [
        b"{{{",
        b"[1]",
        b'{"peak": 1' + b"0" * 400 + b"}",
        b'{"peak": 1' + b"0" * 9000 + b"}",
        b'{"a": ' + b"[" * 50 + b"]" * 50 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_no_runner_tells_is_forged(line: bytes) -> None:
    with pytest.raises(Fault) as fault:
        read_message(line)
    assert fault.value.outcome.kind == "refused"


def test_an_outcome_says_one_line_that_can_be_printed() -> None:
    outcome = bounded(Wrong(reason="a\n\x1b[2Jb" + "c" * 5000, detail="x\x1b\ny" + "z" * 9000))
    assert isinstance(outcome, Wrong)
    assert outcome.reason.startswith("a  [2Jb")
    assert len(outcome.reason) == 500
    assert outcome.detail.startswith("x \ny")
    assert len(outcome.detail) <= 4000


def test_what_passed_stays_as_it_is() -> None:
    kernels = (KernelTime(name="row_sums", count=1, seconds=1e-6, own=True),)
    passed = Passed(
        seconds=1e-6, samples=3, speedup={}, max_error=0.0, allowed_error=1.0, kernels=kernels
    )
    assert bounded(passed) == passed


def _raising(real: Any, error: Exception, *, always: bool) -> Any:
    def question(self: CandidateSession, *args: Any) -> None:
        if always or "MARK" in self.source:  # type: ignore[attr-defined]
            raise error
        real(self, *args)

    return question


@pytest.mark.slow
@pytest.mark.parametrize("error", [TypeError("no"), RecursionError(), OverflowError("too large")])
def test_what_a_candidate_makes_the_judge_raise_is_its_own_outcome(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    load = CandidateSession.load

    def noted(self: CandidateSession, source: str, *rest: Any) -> None:
        self.source = source  # type: ignore[attr-defined]
        load(self, source, *rest)

    monkeypatch.setattr(CandidateSession, "load", noted)
    monkeypatch.setattr(
        CandidateSession, "question", _raising(CandidateSession.question, error, always=False)
    )
    outcome = norm.judge(MARKED)
    assert outcome.kind == "refused"
    assert outcome.trick == "forged-report"
    assert f"{type(error).__name__} at test_faults.py" in outcome.reason
    assert norm.judge(HONEST).kind == "passed"


def test_what_the_judge_raises_at_the_reference_as_well_is_its_own_fault(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        CandidateSession,
        "question",
        _raising(CandidateSession.question, TypeError("mine"), always=True),
    )
    with pytest.raises(TypeError, match="mine"):
        norm.judge(HONEST)


def test_what_a_source_makes_the_builder_raise_is_a_build_that_failed(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = norm._builder._language.units

    def units(source: str) -> Any:
        if "MARK" in source:
            raise RecursionError
        return real(source)

    monkeypatch.setattr(norm._builder._language, "units", units)
    outcome = norm.judge(MARKED)
    assert outcome.kind == "build_failed"
    assert "RecursionError" in outcome.reason


def test_what_the_user_can_mend_is_let_through(norm: CpuJudge) -> None:
    from kb.errors import ToolchainError

    class Lacking:
        _problem = norm._problem

        @charged
        def judge(self, source: str, *, thorough: bool = False) -> Any:
            raise ToolchainError("there is no compiler")

    with pytest.raises(ToolchainError):
        Lacking().judge(HONEST)
