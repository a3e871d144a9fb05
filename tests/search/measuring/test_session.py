"""A session of measurements: what is judged how often, what is kept, and when it stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date

import pytest
from machines import TWO_CORES

from kb.config import shipped_docs
from kb.errors import TaskError, ToolchainError
from kb.records.library import load_library
from search.codegen.library import make_cards
from search.judging.limits import Prepared
from search.measuring.choice import Pair, Shops, choose
from search.measuring.session import Measured, MeasureLimits, Measurement
from search.measuring.tables import Shape, load_tables
from search.outcome import BuildFailed, Outcome, Passed, Ratio, Refused, TimedOut

pytestmark = pytest.mark.timed

CARDS = make_cards(load_library(shipped_docs() / "ideas"))
TABLES = load_tables("cpu")
Answer = Callable[[str], Outcome]


def passed(ratio: float, low: float | None = None, high: float | None = None) -> Passed:
    eager = Ratio(ratio=ratio, low=low or ratio * 0.99, high=high or ratio * 1.01)
    return Passed(
        seconds=1 / ratio, samples=9, speedup={"eager": eager}, max_error=0, allowed_error=1
    )


class Fixed:
    """A bench whose judge answers as it is told to, and a clock that goes on by a second a call."""

    def __init__(self, answer: Answer, broken: str = "") -> None:
        self.answer, self.broken = answer, broken
        self.sources: list[str] = []
        self.opened: list[str] = []
        self.now = 0.0

    @contextmanager
    def open(self, shape: Shape) -> Iterator[Fixed]:
        self.opened.append(shape.name)
        yield self

    def prepare(self) -> Prepared:
        self.now += 1
        if self.broken == self.opened[-1]:
            raise TaskError("it cannot be judged here")
        return Prepared(
            baselines={"eager": 1.0}, compile_error=None, dropped=(), sandbox=(), graph=None, work=None
        )  # fmt: skip

    def judge(self, source: str) -> Outcome:
        self.now += 1
        self.sources.append(source)
        return self.answer(source)


@pytest.fixture(scope="module")
def shops() -> Shops:
    return Shops(CARDS, TWO_CORES)


def pairs(shops: Shops, idea: str, count: int = 1) -> list[Pair]:
    card = CARDS[idea]
    return [Pair(card=card, shape=shape) for shape in choose(card, TABLES, shops, count)]


def run(
    shops: Shops, bench: Fixed, wanted: list[Pair], settings: int = 1, until: float | None = None
) -> tuple[list[Measured], Measurement]:
    terms = MeasureLimits(settings=settings, target="zen4", at=date(2026, 1, 2))
    session = Measurement(bench, shops, terms, lambda: bench.now, until)
    return list(session.run(wanted)), session


def test_the_best_of_several_settings_counts(shops: Shops) -> None:
    bench = Fixed(lambda source: passed(3.0 if "unroll=1" in source else 2.0))
    ((found,), _) = run(shops, bench, pairs(shops, "cpu-pointwise-fused"), settings=3)
    assert len(bench.sources) == 3
    assert found.evidence is not None
    assert found.evidence.gain == pytest.approx(3.0, rel=1e-3)
    assert found.evidence.note.endswith("unroll=1, stream=false, the best of 3 settings")


def test_an_idea_has_failed_when_three_settings_have(shops: Shops) -> None:
    bench = Fixed(lambda _: BuildFailed(reason="no"))
    ((found,), _) = run(shops, bench, pairs(shops, "cpu-pointwise-fused"))
    assert len(bench.sources) == 3
    assert found.evidence is not None
    assert found.evidence.outcome == "failed"


def test_what_neighbours_disturbed_is_timed_again_and_the_narrowest_interval_counts(
    shops: Shops,
) -> None:
    answers = iter([TimedOut(reason="", seconds=1), passed(1.0, 0.1, 3.0), passed(1.2, 1.1, 1.3)])
    bench = Fixed(lambda _: next(answers))
    ((found,), _) = run(shops, bench, pairs(shops, "cpu-pointwise-fused"))
    assert found.evidence is not None
    assert (found.evidence.low, found.evidence.high) == (1.1, 1.3)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [(passed(1.0, 0.1, 3.0), "busy"), (Refused(reason="it cheats", trick="any"), "it cheats")],
)
def test_what_cannot_be_said_is_no_evidence(shops: Shops, outcome: Outcome, told: str) -> None:
    ((found,), _) = run(shops, Fixed(lambda _: outcome), pairs(shops, "cpu-pointwise-fused"))
    assert found.evidence is None
    assert told in found.trouble


def test_a_task_that_cannot_be_judged_leaves_the_others(shops: Shops) -> None:
    wanted = pairs(shops, "cpu-pointwise-fused", 3)
    bench = Fixed(lambda _: passed(2.0), broken=wanted[1].shape.name)
    found, _ = run(shops, bench, wanted)
    assert [one.evidence is None for one in found] == [False, True, False]


def test_a_disturbed_device_costs_one_measurement(shops: Shops) -> None:
    def answer(source: str) -> Outcome:
        if "cpu-pointwise-streaming-stores(" in source:
            raise ToolchainError("something else uses the device")
        return passed(2.0)

    wanted = [
        *pairs(shops, "cpu-pointwise-streaming-stores"),
        *pairs(shops, "cpu-pointwise-fused"),
    ]
    bench = Fixed(answer)
    found, _ = run(shops, bench, wanted)
    assert len(bench.opened) == 1
    assert [one.trouble for one in found] == ["something else uses the device", ""]


def test_what_would_take_too_long_is_not_begun(shops: Shops) -> None:
    wanted = pairs(shops, "cpu-pointwise-fused", 5)
    found, session = run(shops, Fixed(lambda _: passed(2.0)), wanted, until=5.5)
    assert session.stopped
    assert [one.pair for one in found] == wanted[:2]


def test_winners_of_two_parts_are_put_together(shops: Shops) -> None:
    seen: list[str] = []

    def answer(source: str) -> Outcome:
        seen.append(source)
        return passed([1.0, 2.0, 3.0, 6.0][len(seen) - 1])

    bench = Fixed(answer)
    ((found,), _) = run(shops, bench, pairs(shops, "cpu-combine-winners"))
    assert len(set(seen)) == 4
    assert found.evidence is not None
    assert found.evidence.gain == pytest.approx(6.0, rel=1e-3)
    assert "1.00x, 2.00x, 3.00x" in found.evidence.note
