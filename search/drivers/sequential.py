"""Drives one search in this process: asks it for work, does the work, tells it the result."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from typing import Protocol

from search.attempt import Attempt, Idea
from search.authors import Author
from search.graph import Graph
from search.judging import Judge, Prefetching
from search.loop import (
    Ideas,
    JudgeNode,
    MendDraft,
    Result,
    Search,
    TuneKnobs,
    Work,
    WriteDraft,
    WriteIdeas,
)
from search.outcome import STANDING, Outcome
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Storage, outcome_key
from search.tunables import next_setting

FINALISTS = 3
_LOOKS = 4  # groups of finalists that are measured again, until one stands
WITHIN_REACH = 0.85  # of the best merit: short timings are off by less than that


class Watcher(Protocol):
    """Is told what happens, to show progress."""

    def begins(self, work: Work) -> None:
        """Work was handed out."""
        ...

    def ends(self, work: Work, result: Result) -> None:
        """Its result is in the record."""
        ...

    def confirms(self, node: int, outcome: Outcome) -> None:
        """A finalist was measured again."""
        ...


class Driver:
    """Does the work of a search, one piece after the other, so that nothing disturbs the timing."""

    def __init__(
        self,
        search: Search,
        author: Author,
        judge: Judge,
        storage: Storage,
        witness: RecordingRetriever,
        watcher: Watcher,
    ) -> None:
        self._search = search
        self._author = author
        self._judge = judge
        self._storage = storage
        self._witness = witness
        self._watcher = watcher

    def run(self) -> None:
        """Work until the search has nothing more to ask."""
        # What is loaded by now lives as long as the run: collections need not walk it each time.
        gc.collect()
        gc.freeze()
        try:
            while (work := self._search.ask()) is not None:
                self._settle(work)
        finally:
            gc.unfreeze()

    def _settle(self, work: Work) -> None:
        self._watcher.begins(work)
        result = self._do(work)
        self._search.tell(work, result)
        self._watcher.ends(work, result)

    def _do(self, work: Work) -> Result:
        match work:
            case WriteIdeas():
                self._witness.clear()
                return self._ideas(work, self._author.ideas(work.moment, work.count))
            case WriteDraft():
                return self._author.draft(work.moment, work.idea, work.step.branch, work.siblings)
            case TuneKnobs():
                return next_setting(work.tunable, work.nodes, work.seed)
            case MendDraft():
                return self._author.repair(work.moment, work.failed)
            case JudgeNode():
                known = self._storage.outcome(work.key)
                return known or self._judge.judge(work.node.draft.source)

    def _ideas(self, work: WriteIdeas, ideas: tuple[Idea, ...]) -> Ideas:
        return Ideas(
            ideas=ideas[: work.count],
            retrieved=self._witness.documents(),
            subjects=self._witness.subjects(),
        )

    def _expect(self, source: str, *, thorough: bool = False) -> bool:
        """Have `source` judged in the meantime; False where whoever is judged meanwhile would disturb."""
        if not isinstance(self._judge, Prefetching):
            return False
        self._judge.expect(source, thorough=thorough)
        return True

    def confirm(self, context: str) -> dict[int, Outcome]:
        """Measure the best few again, long enough to report them; by node number."""

        def expect(attempt: Attempt) -> None:
            if self._storage.outcome(_confirmed_key(attempt, context)) is None:
                self._expect(attempt.draft.source, thorough=True)

        def measure(attempt: Attempt) -> Outcome:
            key = _confirmed_key(attempt, context)
            outcome = self._storage.outcome(key)
            if outcome is None:
                outcome = self._judge.judge(attempt.draft.source, thorough=True)
                self._storage.keep_outcome(key, outcome)
            self._watcher.confirms(attempt.number, outcome)
            return outcome

        return measured_again(self._search.graph, measure, expect)


def _confirmed_key(attempt: Attempt, context: str) -> str:
    return outcome_key(attempt.draft.source, context, "confirmed")


def measured_again(
    graph: Graph,
    measure: Callable[[Attempt], Outcome],
    expect: Callable[[Attempt], None] = lambda _: None,
) -> dict[int, Outcome]:
    """Return the outcomes of the finalists, measured again, by node number.

    Where none of them stands, because a program that is no program of the task's was ahead of all
    others, the next best are measured.

    Args:
        expect: is told what will be measured.
    """
    outcomes: dict[int, Outcome] = {}
    for _ in range(_LOOKS):
        chosen = finalists(graph, without=outcomes)
        for attempt in chosen:
            expect(attempt)
        for attempt in chosen:
            outcomes[attempt.number] = measure(attempt)
        if any(outcome.kind in STANDING for outcome in outcomes.values()):
            break
    return outcomes


def finalists(graph: Graph, without: Collection[int] = ()) -> list[Attempt]:
    """Return the fastest few with distinct sources: those that luck may have put behind the best.

    Args:
        without: nodes that are out.
    """
    ranked = [attempt for attempt in graph.ranked() if attempt.number not in without]
    distinct: dict[str, Attempt] = {}
    for attempt in ranked:
        if attempt.merit >= WITHIN_REACH * ranked[0].merit:
            distinct.setdefault(attempt.draft.source, attempt)
    return list(distinct.values())[:FINALISTS]
