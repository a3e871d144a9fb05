"""Drives a search whose judge is far away: hands out all that can be judged before it waits."""

from __future__ import annotations

from search.drivers.sequential import Driver
from search.pieces import JudgeNode, Work
from synth.models.budgeted import Exhausted


class BatchedDriver(Driver):
    """Works in batches: one candidate of each idea of a round at a time.

    A folder that is carried to the judge by hand, or copied every few minutes, costs one trip a
    batch instead of one a candidate. Results are told in the order in which they were asked for,
    so that what a search finds does not depend on which answer came first.
    """

    def run(self) -> None:
        """Work until the search has nothing more to ask."""
        batch: list[JudgeNode] = []
        while True:
            room = self._search.room
            full = room is not None and bool(batch) and len(batch) >= room
            work = None if full else self._search.ask()
            if isinstance(work, JudgeNode):
                if self._storage.outcome(work.key) is None:
                    self._expect(work.node.draft.source)
                batch.append(work)
            elif work is not None:
                self._write(work, batch)
            elif not batch or self._search.ended:
                return
            else:
                for node in batch:
                    self._settle(node)
                batch.clear()

    def _write(self, work: Work, batch: list[JudgeNode]) -> None:
        try:
            self._settle(work)
        except Exhausted:
            # What was written is paid for: it is judged before the run ends.
            for node in batch:
                self._settle(node)
            raise
