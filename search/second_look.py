"""The second look: before a run reports or learns, its best are judged by another judge.

What a search finds, it finds because a judge rewarded it. A second judge in processes of its own, with other
seeds, addresses, orders and audits, has never been searched against: what passes before the first and
not before the second has found something out about the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from search.attempt import Attempt
from search.graph import Graph
from search.judging import Judge, Prefetching
from search.outcome import STANDING, Outcome, Passed, Refused
from search.runs.storage import Storage, outcome_key
from search.runs.verdicts import second_key

FINALISTS = 3
WITHIN_REACH = 0.85  # of the best merit: short timings are off by less than that
SESSIONS = 1.03  # two sessions differ by so much, whatever their intervals say
MOST = 9  # candidates that are judged again, however many of them are refused
TRICK = "second-look"


class SecondLook:
    """Judges candidates that passed once more, and keeps their outcomes.

    Args:
        judge: another one than the judge that the search was driven by.
        context: what an outcome depends on besides the source.
        told: is called with the node and its outcome as each is known.
    """

    def __init__(
        self,
        judge: Judge,
        storage: Storage,
        context: str,
        told: Callable[[int, Outcome], None] = lambda *_: None,
    ) -> None:
        self._judge = judge
        self._storage = storage
        self._context = context
        self._told = told

    def run(self, graph: Graph) -> dict[int, Outcome]:
        """Return the second outcomes of the finalists of a graph, by node."""
        return measured_again(graph, self.measure, self.expect)

    def expect(self, attempt: Attempt) -> None:
        """Have a judge that is a trip away begin; any other would disturb the one that is timed."""
        if (
            isinstance(self._judge, Prefetching)
            and self._storage.outcome(self._key(attempt)) is None
        ):
            self._judge.expect(attempt.draft.source, thorough=True)

    def measure(self, attempt: Attempt) -> Outcome:
        """Judge one again, timing it long enough to report it."""
        outcome = self._storage.outcome(self._key(attempt))
        first = self._storage.outcome(outcome_key(attempt.draft.source, self._context))
        if outcome is None and first is not None and first.kind not in STANDING:
            outcome = settled(first)  # only a judge of another context had passed it
        if outcome is None:
            outcome = settled(self._judge.judge(attempt.draft.source, thorough=True))
            self._storage.keep_outcome(self._key(attempt), outcome)
        self._told(attempt.number, outcome)
        return outcome

    def _key(self, attempt: Attempt) -> str:
        return second_key(outcome_key(attempt.draft.source, self._context))


def measured_again(
    graph: Graph,
    measure: Callable[[Attempt], Outcome],
    expect: Callable[[Attempt], None] = lambda _: None,
) -> dict[int, Outcome]:
    """Return the outcomes that count for the finalists, by node.

    Where one is refused, so is what came of it and what it came from: unless those pass themselves,
    nothing may be learned from them. Others take their places among the finalists.

    Args:
        measure: judges one again.
        expect: is told what will be measured.
    """
    outcomes: dict[int, Outcome] = {}

    def look(chosen: list[Attempt]) -> None:
        chosen = chosen[: MOST - len(outcomes)]
        for attempt in chosen:
            expect(attempt)
        for attempt in chosen:
            outcomes[attempt.number] = measure(attempt)

    while len(outcomes) < MOST:
        chosen = [one for one in finalists(graph, _fallen(outcomes)) if one.number not in outcomes]
        if not chosen:
            break
        look(chosen)
        look(_kin(graph, outcomes))
    for attempt in _kin(graph, outcomes):
        reason = "a candidate of its line was refused when a second judge looked at it"
        outcomes[attempt.number] = Refused(reason=reason, trick=TRICK)
    return outcomes


def awaited(graph: Graph) -> dict[int, Outcome]:
    """Return what the finalists of a run count as that was broken off: nothing may rest on them yet."""
    reason = "the run was broken off before a second judge looked at it"
    return {one.number: Refused(reason=reason, trick=TRICK) for one in _nearest(graph, ())}


def settled(outcome: Outcome) -> Outcome:
    """Return what a second outcome makes of a candidate that has passed once.

    What does not pass again is refused: it is not the program that it was before the first judge.
    """
    if outcome.kind in STANDING:
        return outcome
    found = f"{outcome.kind}: {getattr(outcome, 'reason', '')}"
    return Refused(
        reason=f"it passed once, and before a second judge with other secrets it was {found}",
        trick=outcome.trick if isinstance(outcome, Refused) else TRICK,
        detail=str(getattr(outcome, "detail", "")),
    )


def _reaches(attempt: Attempt, best: Attempt) -> bool:
    """Say whether a longer measurement may put `attempt` before the best, by both intervals."""
    if attempt.merit < WITHIN_REACH * best.merit:
        return False
    return SESSIONS * attempt.merit * _spread(attempt) ** 2 >= best.merit / _spread(best) ** 2


def _gained(attempt: Attempt) -> bool:
    """Say whether it may be faster than every baseline by more than two sessions differ."""
    ratios = attempt.outcome.speedup.values() if isinstance(attempt.outcome, Passed) else ()
    return min((one.high for one in ratios), default=float("inf")) > SESSIONS


def _spread(attempt: Attempt) -> float:
    """Return the widest interval of its speed-ups, as the greater of their ends to the middle."""
    ratios = attempt.outcome.speedup.values() if isinstance(attempt.outcome, Passed) else ()
    ends = [max(one.high / one.ratio, one.ratio / max(one.low, 1e-9)) for one in ratios]
    return max(ends, default=1.0)


def finalists(graph: Graph, without: Collection[int] = ()) -> list[Attempt]:
    """Return the fastest few with distinct sources: those that luck may have put behind the best.

    Where none of them gained anything, the best alone: which of them it is changes nothing.

    Args:
        without: nodes that are out.
    """
    nearest = _nearest(graph, without)
    return nearest if any(map(_gained, nearest)) else nearest[:1]


def _nearest(graph: Graph, without: Collection[int]) -> list[Attempt]:
    ranked = [attempt for attempt in graph.ranked() if attempt.number not in without]
    distinct: dict[str, Attempt] = {}
    for attempt in ranked:
        if _reaches(attempt, ranked[0]):
            distinct.setdefault(attempt.draft.source, attempt)
    return list(distinct.values())[:FINALISTS]


def _fallen(outcomes: dict[int, Outcome]) -> frozenset[int]:
    return frozenset(n for n, outcome in outcomes.items() if outcome.kind not in STANDING)


def _kin(graph: Graph, outcomes: dict[int, Outcome]) -> list[Attempt]:
    """Return the candidates that passed, are of one line with a refused one, and were not judged again."""
    parents = {node.number: node.parent for node in graph.nodes}
    lines = {number: set(_line(number, parents)) for number in parents}
    fallen = _fallen(outcomes)
    return [
        attempt
        for attempt in graph.ranked()
        if attempt.number not in outcomes
        and any(
            attempt.number in lines[number] or number in lines[attempt.number] for number in fallen
        )
    ]


def _line(number: int, parents: dict[int, int | None]) -> list[int]:
    """Return the nodes that `number` came from."""
    line = []
    parent = parents[number]
    while parent is not None:
        line.append(parent)
        parent = parents[parent]
    return line
