from __future__ import annotations

import pytest

from kb.records import LessonRecord, parse_record
from search.authors import Draft, Idea
from search.graph import Graph, Node, Slot, Step
from search.outcome import Passed, Ratio, Wrong
from search.remember import Setting, lessons, write

SETTING = Setting(
    run="softmax-1",
    task="softmax",
    identity="0123456789abcdef",
    target="zen4",
    architecture="x86-64-v4",
    language="cpp",
    families=("softmax",),
    symptoms=("memory-bound",),
    shapes="64x1024 -> 64x1024",
    eager_seconds=2e-3,
)


def passed(ratio: float) -> Passed:
    interval = Ratio(ratio=ratio, low=ratio * 0.98, high=ratio * 1.02)
    return Passed(
        seconds=2e-3 / ratio,
        samples=50,
        speedup={"eager": interval},
        max_error=1e-7,
        allowed_error=1e-6,
    )


def node(number, parent, idea, outcome, round_=0):
    return Node(
        number=number,
        step=Step(Slot(round_, 0), number, 0),
        parent=parent,
        idea=Idea(
            title=idea, text=f"{idea} in words", category="memory access", record=f"r-{idea}"
        ),
        draft=Draft(source=f"# {idea}\n", plan={"s0": {"recipe": f"r-{idea}"}}),
        outcome=outcome,
    )


@pytest.fixture
def graph() -> Graph:
    graph = Graph()
    graph.add(node(0, None, "three passes", passed(1.2)))
    graph.add(node(1, None, "scalar loop", passed(0.6)))
    graph.add(node(2, None, "guesswork", Wrong(reason="every element differs")))
    graph.add(node(3, 0, "online maximum", passed(1.5), round_=1))
    return graph


def test_the_winner_is_kept_with_its_plan_path_and_evidence(graph):
    found = {lesson.record.idea: lesson for lesson in lessons(graph, {3: passed(1.4)}, SETTING)}
    won = found["r-online maximum"]
    assert won.record.plan == {"s0": {"recipe": "r-online maximum"}}
    assert won.record.evidence[0].before == pytest.approx(2e-3)
    assert won.record.evidence[0].after == pytest.approx(2e-3 / 1.4)
    assert "1. three passes: 1.20x over eager" in won.body
    assert "# online maximum" in won.body


def test_what_lost_and_what_failed_are_kept_as_such(graph):
    found = {lesson.record.idea: lesson for lesson in lessons(graph, {3: passed(1.4)}, SETTING)}
    assert found["r-scalar loop"].record.evidence[0].outcome == "lost"
    failed = found["r-guesswork"].record.evidence[0]
    assert failed.outcome == "failed"
    assert failed.after is None
    assert "every element differs" in failed.note
    assert "r-three passes" not in found  # a step of the winning path is no failure


def test_a_winner_whose_interval_reaches_one_is_no_lesson(graph):
    close = Passed(
        seconds=2e-3,
        samples=9,
        speedup={"eager": Ratio(ratio=1.01, low=0.97, high=1.05)},
        max_error=0,
        allowed_error=0,
    )
    names = [lesson.name for lesson in lessons(graph, {3: close}, SETTING)]
    assert not any(name.endswith("-won") for name in names)


def test_a_later_run_adds_its_evidence_to_the_same_record(graph, tmp_path):
    for run in ("softmax-1", "softmax-2", "softmax-2"):
        setting = Setting(**{f: getattr(SETTING, f) for f in Setting.__slots__} | {"run": run})
        for lesson in lessons(graph, {3: passed(1.4)}, setting):
            write(tmp_path, lesson)
    (path,) = tmp_path.glob("*-won.md")
    record = parse_record(path.read_text(), path.name).record
    assert isinstance(record, LessonRecord)
    assert [evidence.run for evidence in record.evidence] == ["softmax-1", "softmax-2"]
    assert not list(tmp_path.glob("*.tmp"))
