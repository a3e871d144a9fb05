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
        begun = False  # something was written
        while True:
            room = self._search.room
            full = room is not None and bool(batch) and len(batch) >= room
            work = None if full else self._search.ask()
            if isinstance(work, JudgeNode):
                if self._storage.outcome(work.key) is None:
                    self._expect(work.node.draft.source)
                batch.append(work)
            elif work is not None:
                if begun or not self._complete(work):
                    self._write(work, batch)
                begun = True
            elif not batch or self._search.ended:
                return
            else:
                for node in batch:
                    self._settle(node)
                batch.clear()

    def _complete(self, work: Work) -> bool:
        """Judge the rest of a batch that was broken off while its outcomes were told, before `work` is written.

        Whoever writes knows all outcomes of a batch or none. A candidate that waits behind something to
        write is of such a batch: in a whole one all candidates are handed out first.

        Returns:
            Whether `work` is not to be written now: it is asked for again, as things are then.
        """
        left = self._search.ask((JudgeNode,))
        if left is None:
            return self._search.ended
        self._search.put_back(work)
        while left is not None:
            self._settle(left)
            left = self._search.ask((JudgeNode,))
        return True

    def _write(self, work: Work, batch: list[JudgeNode]) -> None:
        try:
            self._settle(work)
        except Exhausted:
            # What was written is paid for: it is judged before the run ends.
            for node in batch:
                self._settle(node)
            raise
