"""What a candidate started from, what it gained over that, and whether it won or lost.

Prompts, lessons, the ranking of passages and the novelty check all ask here, so that they agree.
docs/lessons.md says the rule in words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kb.records.types import Fate
from search.attempt import Attempt
from search.outcome import STANDING, Checked, Outcome, Passed, Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a judged candidate gained over what it started from.

    Attributes:
        start: the attempt that it started from, None for the reference under eager.
        base: the outcome of `start`, None for the reference.
        outcome: of the candidate: the later one where it was measured again.
        ratio: its speed over that of its start; None where it failed or was not timed.
        cheated: it was refused, or made of what was refused when it was measured again.
    """

    attempt: Attempt
    start: Attempt | None
    base: Passed | None
    outcome: Outcome
    ratio: Ratio | None
    cheated: bool = False

    @property
    def fate(self) -> Fate | None:
        """Return what became of it, None where it was compiled and not timed."""
        if self.ratio is not None:
            return fate_of(self.ratio)
        return None if isinstance(self.outcome, Checked) else "failed"

    @property
    def log(self) -> float:
        """Return the log of the ratio; minus infinity where there is none."""
        return -math.inf if self.ratio is None else math.log(self.ratio.ratio)


def gains(
    attempts: Iterable[Attempt], confirmed: Mapping[int, Outcome] | None = None
) -> Iterator[Gain]:
    """Yield the gain of each attempt, in their order.

    Args:
        attempts: every judged candidate of a run.
        confirmed: outcomes of those that were measured again, by number; they count instead.
    """
    known = {attempt.number: attempt for attempt in attempts}
    outcomes = {number: one.outcome for number, one in known.items()} | dict(confirmed or {})
    cheats = cheated(known.values(), confirmed or {})
    honest = {number: one for number, one in outcomes.items() if number not in cheats}
    for attempt in known.values():
        start, base = _start(attempt, known, honest)
        outcome = outcomes[attempt.number]
        ratio = over(outcome, base) if isinstance(outcome, Passed) else None
        yield Gain(
            attempt=attempt,
            start=start,
            base=base,
            outcome=outcome,
            ratio=ratio,
            cheated=attempt.number in cheats,
        )


def cheated(attempts: Iterable[Attempt], confirmed: Mapping[int, Outcome]) -> frozenset[int]:
    """Return the attempts that were refused, first or when measured again, and what was made of the latter.

    A child of one that was refused at once was mended, and passed the judge by itself; one whose parent
    had passed may have its trick.
    """
    found: set[int] = set()
    inherited: set[int] = set()
    for attempt in attempts:  # parents come first
        late = confirmed.get(attempt.number)
        if attempt.parent in inherited or (late is not None and late.kind == "refused"):
            inherited.add(attempt.number)
        if attempt.outcome.kind == "refused":
            found.add(attempt.number)
    stood = {number for number, outcome in confirmed.items() if outcome.kind in STANDING}
    return frozenset(found | inherited - stood)


def over(outcome: Passed, base: Passed | None) -> Ratio:
    """Return the speed of one program over that of another, None for the reference under eager.

    Both were timed beside eager, so the quotient of their speed-ups holds where clocks drift between
    two sessions; seconds of two sessions do not. Its interval runs from the least to the largest
    quotient of the two intervals.
    """
    mine = outcome.speedup["eager"]
    if base is None:
        return mine
    theirs = base.speedup["eager"]
    return Ratio(
        ratio=mine.ratio / theirs.ratio,
        low=mine.low / theirs.high,
        high=mine.high / theirs.low,
        confidence=mine.confidence,
    )


def fate_of(ratio: Ratio) -> Fate:
    """Return ``won`` or ``lost`` where the whole interval says so, ``even`` where it holds 1."""
    if ratio.low > 1:
        return "won"
    return "lost" if ratio.high < 1 else "even"


def is_degenerate(attempts: Iterable[Attempt]) -> bool:
    """Say whether the task of these attempts has a reference whose answer is always the same."""
    return any(isinstance(one.outcome, Passed) and one.outcome.degenerate for one in attempts)


def best(found: Sequence[Gain]) -> Gain:
    """Return the gain that speaks for several of one idea.

    The largest; where none was timed one that was compiled, else the latest of the commonest failure.
    """
    kinds = Counter(one.outcome.kind for one in found)

    def rank(place: int) -> tuple[float, bool, int, int]:
        one = found[place]
        failed = one.fate == "failed"
        common = kinds[one.outcome.kind] if failed else 0
        return one.log, not failed, common, place if failed else -place

    return found[max(range(len(found)), key=rank)]


def origin(attempt: Attempt, known: Mapping[int, Attempt]) -> int | None:
    """Return the number of the program that an attempt's idea is about, None for the reference.

    Repairs and tuned settings hang below what they change: all of them are states of one idea.

    Args:
        known: attempts by number; the search ends at one that is not among them.
    """
    number = attempt.parent
    while number is not None and (above := known.get(number)) is not None:
        if (above.idea, above.round) != (attempt.idea, attempt.round):
            break
        number = above.parent
    return number


def _start(
    attempt: Attempt, known: Mapping[int, Attempt], outcomes: Mapping[int, Outcome]
) -> tuple[Attempt | None, Passed | None]:
    """Return the nearest ancestor of another idea that passed, with its outcome."""
    number = origin(attempt, known)
    while number is not None:
        outcome = outcomes.get(number)
        if isinstance(outcome, Passed):
            return known[number], outcome
        number = origin(known[number], known)
    return None, None
