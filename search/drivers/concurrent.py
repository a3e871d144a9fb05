"""Drives a search whose author answers by letter: sends all letters of a step before it waits."""

from __future__ import annotations

import time
from collections.abc import Callable

from search.attempt import Draft
from search.authors import DeferredAuthor
from search.drivers.sequential import Driver, Watcher
from search.judging import Judge
from search.loop import Search
from search.pieces import JudgeNode, MendDraft, Result, Work, WriteDraft, WriteIdeas
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Storage
from search.runs.verdicts import counting_key
from synth.models.waiting import LOOK_SECONDS, Waiting


class ConcurrentDriver(Driver):
    """Works in waves: what can be judged, then every source that can be written, then ideas.

    The letters of a wave are out at the same time, and their answers may come in any order. Results
    are told in the order in which they were asked for and once the wave is complete, so that the
    prompts of a run do not depend on who answered first, and a run that is taken up again sends the
    letters that it sent before. An answer is judged while others are waited for; where the judge is far
    away, all that can be judged is handed out before an outcome is waited for.

    Args:
        context: what an outcome depends on besides the source, as `Search` has it.
        pause: called between two looks for answers.
    """

    def __init__(  # noqa: PLR0913 - a driver's six parts, and what belongs to letters
        self,
        search: Search,
        author: DeferredAuthor,
        judge: Judge,
        storage: Storage,
        witness: RecordingRetriever,
        watcher: Watcher,
        *,
        context: str,
        pause: Callable[[], None] = lambda: time.sleep(LOOK_SECONDS),
    ) -> None:
        super().__init__(search, author, judge, storage, witness, watcher)
        self._asks = author
        self._context = context
        self._pause = pause

    def run(self) -> None:
        """Work until the search has nothing more to ask."""
        while wave := self._next():
            self._ride(wave)

    def _next(self) -> list[Work]:
        """Return the next wave: works of one kind that wait for nothing but themselves."""
        found: list[Work] = []
        room = self._search.room
        while room is None or len(found) < max(1, room):
            work = self._search.ask()
            if work is None:
                break
            found.append(work)
        if self._search.ended:
            return []
        judging = [work for work in found if isinstance(work, JudgeNode)]
        writing = [work for work in found if not isinstance(work, WriteIdeas)]
        chosen: list[Work] = [*judging] or [*writing] or found[:1]
        for work in found:
            if not any(work is one for one in chosen):
                # Once the wave is in, it would be asked for with more behind it.
                self._search.put_back(work)
        return chosen

    def _ride(self, wave: list[Work]) -> None:
        if isinstance(wave[0], JudgeNode):
            for work in wave:
                if isinstance(work, JudgeNode) and self._storage.outcome(work.key) is None:
                    self._expect(work.node.draft.source)
            for work in wave:
                self._settle(work)
            return
        for work in wave:
            self._watcher.begins(work)
        for work, result in zip(wave, self._answers(wave), strict=True):
            self._search.tell(work, result)
            self._watcher.ends(work, result)

    def _answers(self, wave: list[Work]) -> list[Result]:
        """Wait for every answer; judge the sources among them as they come, or send them to be judged."""
        out = {place: self._writing(work) for place, work in enumerate(wave)}
        came: dict[int, Result] = {}
        try:
            while True:
                fresh: list[Result] = []
                for place, waiting in tuple(out.items()):
                    try:
                        next(waiting)
                    except StopIteration as end:
                        del out[place]
                        came[place] = end.value
                        fresh.append(end.value)
                if not out:
                    return [came[place] for place in range(len(wave))]
                for draft in fresh:
                    if isinstance(draft, Draft):
                        self._judge_ahead(draft)
                self._pause()
        finally:
            for waiting in out.values():
                waiting.close()

    def _writing(self, work: Work) -> Waiting[Result]:
        """Do a piece of work; yield as long as its answer has not come."""
        match work:
            case WriteIdeas():
                self._witness.clear()
                return self._ideas(
                    work, (yield from self._asks.asks_ideas(work.moment, work.count))
                )
            case WriteDraft():
                asked = (work.moment, work.idea, work.step.branch, work.siblings)
                return (yield from self._asks.asks_draft(*asked))
            case MendDraft():
                return (yield from self._asks.asks_repair(work.moment, work.failed))
        return self._do(work)

    def _judge_ahead(self, draft: Draft) -> None:
        key = counting_key(self._storage.engine, draft.source, self._context)
        if self._storage.outcome(key) is None and not self._expect(draft.source):
            self._storage.keep_outcome(key, self._judge.judge(draft.source))
