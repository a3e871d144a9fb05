from dataclasses import replace
from typing import Any

import pytest

from kb.cli.render.run_report import beside, report_text
from search.attempt import Draft, Idea
from search.graph import Graph, Node, Slot, Step
from search.outcome import Passed, Ratio
from search.runs.report import build_report

RATIO = {"ratio": 2.0, "low": 1.9, "high": 2.1}


def passed(own: float | None, **profile: float) -> Passed:
    return Passed(
        seconds=1e-3,
        samples=1,
        speedup={"eager": Ratio(**RATIO)},
        max_error=0.0,
        allowed_error=1.0,
        own_share=own,
        profile=profile,
    )


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (passed(None), ""),
        (passed(0.98), ", own 98%"),
        (passed(0.5, drifted=1.0), ", own 50%, clock drifted"),
        (passed(0.5, seen=0.1), ", own 50%, machine too busy to tell"),
    ],
)
def test_own_work_and_drift_stand_beside_a_speed_up(outcome: Passed, expected: str) -> None:
    assert beside(outcome) == expected


def report(source: str = "", **profile: float) -> dict[str, Any]:
    best = {
        "node": 1, "seconds": 1e-3, "speedup": {"eager": RATIO}, "own_share": 0.9, "profile": profile,
        "idea": "x", "source": source,
    }  # fmt: skip
    return {
        "run": "a-1", "task": "a", "target": "h200", "language": "triton", "author": "recipes",
        "candidates": 1, "seconds": 2.0, "stop_reason": "done", "outcomes": {"passed": 1},
        "baselines": {"eager": 2e-3}, "best": best,
    }  # fmt: skip


def test_a_report_says_how_a_device_ran() -> None:
    text = report_text(report(sm_clock=1.98e9, temperature=47.0), [])
    assert "1980 MHz, 47 °C" in text
    assert "drifted" not in text
    assert "clock drifted" in report_text(report(sm_clock=1.5e9, drifted=1.0), [])
    assert "MHz" not in report_text(report(), [])
    assert "too busy to time it" in report_text(report(seen=0.2), [])
    assert "too busy" not in text


def test_a_report_names_the_language_of_the_winner_not_the_one_asked_for() -> None:
    assert "a on h200 in triton," in report_text(report(), [])
    assert "a on h200 in cuda," in report_text(report("lib = load_cuda(CUDA)"), [])


def test_what_the_compiler_warned_of_stands_in_the_report() -> None:
    warned = replace(
        passed(1.0), losses=("wgmma.mma_async instructions are serialized (ptxas C7512)",)
    )
    told = report_text(reported(warned), [])
    assert "the compiler warns: wgmma.mma_async instructions are serialized (ptxas C7512)" in told
    assert "warns" not in report_text(report(), [])


@pytest.mark.parametrize(
    ("judged", "ended", "author", "told"),
    [
        (0, "interrupted", "llm", "it was interrupted before a candidate was judged: `kb resume a-1` goes on"),
        (0, "interrupted", "mcp", "it was interrupted before a candidate was judged"),
        (2, "interrupted", "llm", "no candidate passed before it was interrupted: `kb tree a-1` shows why, "
         "`kb resume a-1` goes on"),
        (0, "running", "llm", "no candidate was judged yet"),
        (2, "running", "llm", "no candidate has passed yet: `kb tree a-1` shows why"),
        (0, "1,000 tokens spent", "llm", "no candidate was judged"),
        (2, "5 rounds done", "llm", "no candidate passed: `kb tree a-1` shows why"),
    ],
)  # fmt: skip
def test_a_report_without_a_best_says_what_happened(
    judged: int, ended: str, author: str, told: str
) -> None:
    found = {**report(), "best": None, "candidates": judged, "stop_reason": ended, "author": author}
    assert report_text(found, []).splitlines()[-1] == f"  {told}"


def test_baselines_are_those_of_the_session_that_the_speed_up_comes_from() -> None:
    # The candidate's time, 1 ms, is the second lowest of its five calls, and so is eager's of its own.
    calls = {
        "eager": (3e-3, 2.5e-3, 2.6e-3, 9e-3, 2.7e-3), "candidate": (1e-3, 5e-3, 2e-3, 0.9e-3, 3e-3),
    }  # fmt: skip
    assert "eager:          2.6 ms" in report_text(reported(replace(passed(1.0), calls=calls)), [])
    assert "eager:          2 ms" in report_text(reported(passed(1.0)), [])


def reported(outcome: Passed) -> dict[str, Any]:
    about = {name: value for name, value in report().items() if name not in ("best", "candidates")}
    graph = Graph()
    graph.add(
        Node(
            number=0,
            step=Step(Slot(0, 0), 0, 0),
            parent=None,
            idea=Idea(title="x", text="", category="memory access"),
            draft=Draft(source=""),
            outcome=outcome,
        )
    )
    return build_report(about, graph, {}, stop_reason="done", seconds=2.0)
