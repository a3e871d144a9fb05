"""Drives one search in this process: asks it for work, does the work, tells it the result."""

from __future__ import annotations

import gc
from typing import Protocol

from search.attempt import Idea
from search.authors import Author
from search.judging import Judge, Prefetching
from search.loop import Search
from search.outcome import Outcome
from search.pieces import (
    Ideas,
    JudgeNode,
    MendDraft,
    Result,
    TuneKnobs,
    Work,
    WriteDraft,
    WriteIdeas,
)
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Storage
from search.second_look import SecondLook
from search.tunables import next_setting


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
        frozen = gc.get_freeze_count()  # by whoever called: it stays so
        gc.collect()
        gc.freeze()
        try:
            while (work := self._search.ask()) is not None:
                self._settle(work)
        finally:
            if not frozen:
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

    def confirm(self, context: str, judge: Judge | None = None) -> dict[int, Outcome]:
        """Have the best few judged again, long enough to report them; by node number.

        Args:
            judge: who judges them; None for the judge of the search.
        """
        look = SecondLook(judge or self._judge, self._storage, context, self._watcher.confirms)
        return look.run(self._search.graph)
