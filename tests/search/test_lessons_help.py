"""Lessons help the next task, and a wrong one is contradicted and sinks."""

from __future__ import annotations

import math
import statistics

import pytest
from landscape import DAY, Landscape, Play
from machines import TWO_CORES

from kb.retrieval.lesson_confidence import standing
from search.lessons.evidence import Runs
from search.lessons.store import LessonStore

pytestmark = pytest.mark.slow


def _low(values: list[float]) -> float:
    """Return the lower end of the mean's 95 % interval, by Student's t with 5 degrees."""
    return statistics.mean(values) - 2.571 * statistics.stdev(values) / math.sqrt(len(values))


@pytest.fixture(scope="module")
def play() -> Play:
    return Play(TWO_CORES)


def test_a_second_task_reaches_more_with_fewer_candidates_for_what_the_first_one_taught(
    play, tmp_path
):
    gains, saved = [], []
    for seed in range(6):
        home = tmp_path / f"with-{seed}"
        play.run(home, "large", Landscape(seed, "large"), candidates=10)
        helped = play.run(home, "small", Landscape(seed, "small"), candidates=8, learn=False)
        bare = tmp_path / f"without-{seed}"
        alone = play.run(bare, "small", Landscape(seed, "small"), candidates=8, learn=False)
        gains.append(math.log(helped.best(2) / alone.best(2)))
        saved.append(alone.needed(0.95 * alone.best(8)) - helped.needed(0.95 * alone.best(8)))
    assert _low(gains) > math.log(1.05)
    assert _low(saved) > 1
    assert helped.graph.nodes[0].idea.title.startswith("Start from what won on large")


def test_a_wrong_lesson_is_contradicted_by_the_next_run_sinks_and_is_followed_no_more(
    play, tmp_path
):
    honest = Landscape(0, "large")
    probe = play.run(tmp_path / "probe", "large", honest, candidates=12, learn=False)
    notes = {
        honest.speed(node.draft.source): honest.note(node.draft.source)
        for node in probe.graph.nodes
        if honest.speed(node.draft.source)
    }
    slowest = min(notes)
    home = tmp_path / "home"
    lying = Landscape(0, "large", lies={notes[slowest]: 50.0})
    play.run(home, "large", lying, candidates=12)
    book = LessonStore(home, Runs(None).fault)  # only read
    (wrong,) = [one for one in book.entries() if one.name.startswith("large-")]
    before = standing(wrong.record, DAY)

    second = play.run(home, "small", Landscape(0, "small"), candidates=10)
    assert second.graph.nodes[0].idea.plan["lesson"] == wrong.name
    assert ("contradicted", wrong.name) in {(c.fate, c.lesson) for c in second.changes}
    (sunk,) = [one for one in book.entries() if one.name == wrong.name]
    after = standing(sunk.record, DAY)
    assert after.trust < before.trust
    assert after.lift < before.lift
    assert after.expected == 0
    assert after.contradicted == 1
    assert "started from this lesson" in sunk.record.evidence[-1].note

    third = play.run(home, "small", Landscape(0, "small"), candidates=4)
    led = [node.idea.plan.get("lesson") for node in third.graph.nodes]
    assert wrong.name not in led
    assert any(name and name.startswith("small-") for name in led)
