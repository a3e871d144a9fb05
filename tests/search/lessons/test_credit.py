from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from kb.config import Home
from kb.database import create_tables, open_engine, reading
from kb.retrieval.effect_estimate import Where
from kb.retrieval.effect_store import Effects, RetrievalRow, UseRow
from search.attempt import Attempt, Diagnosis, Draft, Idea
from search.graph import Graph, Node, Proposal, Slot, Step
from search.lessons.credit import OTHERS, QUOTED, credits_of, keep_credits
from search.lessons.setting import Setting
from search.outcome import BuildFailed, Checked, Outcome, Passed, Ratio
from search.runs.storage import Storage

PASSAGES = {"p1": "kb:ideas/tile.md", "p2": "kb:ideas/pad.md", "p3": "manual-passage"}


def passed(speedup: float, half: float = 0.0001) -> Passed:
    ratio = Ratio(ratio=speedup, low=speedup * (1 - half), high=speedup * (1 + half))
    return Passed(
        seconds=1 / speedup, samples=9, speedup={"eager": ratio}, max_error=0.0, allowed_error=1.0
    )


def node(
    number: int,
    outcome: Outcome | None,
    *,
    parent: int | None = None,
    step: Step | None = None,
    idea: Idea | None = None,
    quoted: tuple[str, ...] = (),
) -> Node:
    return Node(
        number=number,
        step=step or Step(Slot(0, 0), number, 0),
        parent=parent,
        idea=idea or Idea(title=f"idea {number}", text="text", category="memory access"),
        draft=Draft(source=f"source {number}", passages=quoted),
        outcome=outcome,
    )


def graph_of(*nodes: Node) -> Graph:
    graph = Graph()
    for one in nodes:
        graph.add(one)
    return graph


def idea(*passages: str, record: str | None = None) -> Idea:
    return Idea(title="t", text="x", category="memory access", passages=passages, record=record)


def diagnose(attempt: Attempt) -> Diagnosis:
    return Diagnosis(symptoms=("memory-bound", "page-faults"), lines=())


SETTING = Setting(
    run="softmax-1",
    task="softmax",
    identity="softmax/abc",
    target="zen3",
    architecture="zen3",
    language="cpp",
    families=("softmax",),
    symptoms=("many-small-operators",),
    shapes="64x1024 -> 64x1024",
    eager_seconds=1.0,
    diagnose=diagnose,
)
NOW = 1_000_000.0


def uses(graph: Graph, confirmed: dict[int, Outcome] | None = None, records=None):
    known = {**PASSAGES, **(records or {})}
    return list(credits_of(graph, confirmed or {}, SETTING, NOW, known))


def test_a_gain_is_over_what_the_candidate_started_from() -> None:
    graph = graph_of(
        node(0, passed(2.0), idea=idea("p1")), node(1, passed(3.0), parent=0, idea=idea("p2"))
    )
    first, second = uses(graph)
    assert (first.subject, first.trial.fate) == ("kb:ideas/tile.md", "won")
    assert first.trial.gain == pytest.approx(math.log(2.0))
    assert first.trial.bottleneck == "many-small-operators"
    assert second.trial.gain == pytest.approx(math.log(1.5))
    assert second.trial.bottleneck == "memory-bound"


def test_what_cannot_be_told_apart_is_even_and_what_is_slower_lost() -> None:
    graph = graph_of(
        node(0, passed(2.0), idea=idea("p1")),
        node(1, passed(2.01, half=0.05), parent=0, step=Step(Slot(1, 0), 0, 0), idea=idea("p1")),
        node(2, passed(1.0), parent=0, step=Step(Slot(1, 0), 1, 0), idea=idea("p1")),
    )
    assert [use.trial.fate for use in uses(graph)] == ["won", "even", "lost"]


def test_a_draft_that_was_mended_counts_once_by_its_end_and_over_the_last_that_passed() -> None:
    slot = Slot(1, 0)
    graph = graph_of(
        node(0, passed(2.0)),
        node(1, BuildFailed(reason="no"), parent=0, step=Step(slot, 0, 0), idea=idea("p1")),
        node(2, passed(4.0), parent=1, step=Step(slot, 0, 0, repair=1), idea=idea("p1")),
    )
    (use,) = uses(graph)
    assert (use.node, use.trial.fate) == (2, "won")
    assert use.trial.gain == pytest.approx(math.log(2.0))


def test_a_tuned_setting_is_an_implementation_of_its_idea_and_the_best_counts_whole() -> None:
    slot = Slot(0, 0)
    graph = graph_of(
        node(0, passed(2.0), step=Step(slot, 0, 0), idea=idea("p1")),
        node(1, passed(2.2), parent=0, step=Step(slot, 0, 1), idea=idea("p1")),
    )
    written, tuned = uses(graph)
    assert tuned.trial.gain == pytest.approx(math.log(2.2))
    assert (written.trial.share, tuned.trial.share) == pytest.approx((OTHERS, 1.0), abs=1e-6)


def test_a_failure_that_nobody_mended_is_a_loss() -> None:
    (use,) = uses(graph_of(node(0, BuildFailed(reason="no"), idea=idea("p1"))))
    assert use.trial.fate == "failed"
    assert use.trial.value < 0


def test_what_was_compiled_and_not_timed_teaches_nothing() -> None:
    checked = Checked(kernels=(), max_error=None, allowed_error=None)
    assert uses(graph_of(node(0, checked, idea=idea("p1")))) == []


def test_an_idea_takes_the_credit_and_what_was_only_quoted_shares_a_part() -> None:
    graph = graph_of(
        node(0, passed(2.0), idea=idea("p1", record="tile"), quoted=("p1", "p2", "p3", "gone"))
    )
    shares = {use.subject: use.trial.share for use in uses(graph, records={"tile": PASSAGES["p1"]})}
    assert shares == pytest.approx(
        {
            "kb:ideas/tile.md": 1.0,
            "kb:ideas/pad.md": QUOTED / 2,
            "manual-passage": QUOTED / 2,
        },
        abs=1e-6,
    )


def test_of_several_implementations_the_best_counts_whole_the_others_in_part() -> None:
    graph = graph_of(
        node(0, BuildFailed(reason="no"), step=Step(Slot(0, 0), 0, 0), idea=idea("p1")),
        node(1, passed(2.0), step=Step(Slot(0, 0), 0, 1), idea=idea("p1")),
        node(2, passed(1.5), step=Step(Slot(0, 0), 0, 2), idea=idea("p1")),
        node(3, BuildFailed(reason="no"), step=Step(Slot(0, 0), 1, 0), idea=idea("p2")),
    )
    found = uses(graph)
    shares = [use.trial.share for use in found]
    assert shares == pytest.approx([OTHERS, 1.0, OTHERS, 1.0], abs=1e-6)
    assert [use.trial.fate for use in found] == ["failed", "won", "won", "failed"]


def test_a_noisy_measurement_tells_less() -> None:
    def share(half: float) -> float:
        (use,) = uses(graph_of(node(0, passed(2.0, half=half), idea=idea("p1"))))
        return use.trial.share

    assert 1.0 >= share(0.01) > share(0.2) > share(0.6) > 0


def test_a_measurement_made_again_counts_instead_of_the_first() -> None:
    graph = graph_of(node(0, passed(5.0), idea=idea("p1")))
    (use,) = uses(graph, {0: passed(2.0)})
    assert use.trial.gain == pytest.approx(math.log(2.0))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    engine = open_engine(Home(tmp_path / "home"))
    create_tables(engine)
    return Storage(engine)


def rows(storage: Storage, table: type) -> list[object]:
    with reading(storage.engine) as session:
        return list(session.query(table))


def recorded(storage: Storage, graph: Graph, setting: Setting = SETTING, now: float = NOW) -> int:
    from kb.retrieval.effect_store import record

    found = list(credits_of(graph, {}, setting, now, PASSAGES))
    return record(storage.engine, setting.run, found)


def test_a_run_recorded_twice_counts_once_and_its_later_state_replaces_the_earlier(
    storage: Storage,
) -> None:
    slot = Slot(0, 0)
    broken = node(0, BuildFailed(reason="no"), step=Step(slot, 0, 0), idea=idea("p1"))
    mended = node(1, passed(2.0), parent=0, step=Step(slot, 0, 0, repair=1), idea=idea("p1"))
    assert recorded(storage, graph_of(broken)) == 1
    assert recorded(storage, graph_of(broken)) == 1
    assert recorded(storage, graph_of(broken, mended), now=2 * NOW) == 1
    assert recorded(storage, graph_of(broken, mended), now=3 * NOW) == 1
    (row,) = rows(storage, UseRow)
    assert (row.fate, row.node, row.at) == ("won", 1, 2 * NOW)


def test_the_same_candidate_in_another_run_is_no_new_measurement(storage: Storage) -> None:
    graph = graph_of(node(0, passed(2.0), idea=idea("p1")))
    assert recorded(storage, graph) == 1
    assert recorded(storage, graph, replace(SETTING, run="softmax-2")) == 0
    assert recorded(storage, graph, replace(SETTING, run="other-1", identity="other/abc")) == 1
    assert len(rows(storage, UseRow)) == 2


def test_a_resumed_run_ranks_by_what_was_known_when_it_began(storage: Storage) -> None:
    recorded(storage, graph_of(node(0, passed(2.0), idea=idea("p1"))))
    subject = "kb:ideas/tile.md"
    before = Effects(storage.engine, NOW - 1).of([subject], Where())
    after = Effects(storage.engine, NOW + 1).of([subject], Where())
    assert before == {}
    assert after[subject].won == 1


def test_retrievals_are_kept_with_the_ideas_that_they_led_to(storage: Storage) -> None:
    record = storage.begin("softmax", {})
    proposal = Proposal(
        slot=Slot(0, 0),
        parent=None,
        ideas=(),
        retrieved=("kb:ideas/tile.md",),
        subjects=("kb:ideas/tile.md", "manual-passage"),
    )
    record.add_proposal(proposal)
    found = rows(storage, RetrievalRow)
    assert {(row.run, row.slot, row.subject) for row in found} == {
        ("softmax-1", "0.0", "kb:ideas/tile.md"),
        ("softmax-1", "0.0", "manual-passage"),
    }


def test_credits_of_a_recorded_run_reach_the_records_that_its_ideas_name(storage: Storage) -> None:
    graph = graph_of(node(0, passed(2.0), idea=idea("unknown", record="nobody")))
    assert keep_credits(storage.engine, graph, {}, SETTING, NOW) == 0
