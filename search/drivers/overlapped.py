"""Drives a search whose rounds overlap: sources are written while others are judged."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from search.authors import Author, DeferredAuthor
from search.drivers.sequential import Driver, Watcher
from search.judging import Judge
from search.loop import Search
from search.outcome import Outcome
from search.pieces import Ideas as IdeasResult
from search.pieces import JudgeNode, MendDraft, Result, TuneKnobs, Work, WriteDraft, WriteIdeas
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Storage
from synth.models.budgeted import Exhausted
from synth.models.waiting import Waiting

_LOOK_SECONDS = 0.05  # between two looks for answers, while nothing else can be done
_WRITING: tuple[type[Work], ...] = (WriteIdeas, WriteDraft, MendDraft, TuneKnobs)


@dataclass(slots=True)
class _Letter:
    """Something that is being written, with what was retrieved for it so far."""

    work: Work
    waiting: Waiting[Result]
    documents: dict[str, None] = field(default_factory=dict)
    subjects: dict[str, None] = field(default_factory=dict)


class OverlappedDriver(Driver):
    """Keeps each judge at work, and so many writings at once.

    A judge has a thread and one candidate at a time. All else happens in the thread that calls `run`:
    what retrieves, renders and records is never in two threads. An author whose answers take long
    waits for several at once; any other writes one piece after the other, and judges work meanwhile.
    With a search whose settings say `overlap`, what is asked for does not depend on who is done first;
    numbers of nodes do.

    Args:
        judges: one a device, each the only one who asks that device.
        writers: pieces that are written at once.
    """

    def __init__(  # noqa: PLR0913 - a driver's six parts, and how many writings
        self,
        search: Search,
        author: Author,
        judges: Sequence[Judge],
        storage: Storage,
        witness: RecordingRetriever,
        watcher: Watcher,
        *,
        writers: int = 1,
    ) -> None:
        super().__init__(search, author, judges[0], storage, witness, watcher)
        self._judges = list(judges)
        self._writers = writers
        self._letters: list[_Letter] = []
        self._judging: dict[Future[Outcome], tuple[JudgeNode, Judge]] = {}

    def run(self) -> None:
        """Work until the search has nothing more to ask."""
        with ThreadPoolExecutor(len(self._judges), "judge") as threads:
            try:
                while self._step(threads):
                    pass
            except Exhausted:
                # What was written is paid for: it is judged before the run ends.
                self._close()
                while self._judge_more(threads) or self._judging:
                    self._collect(None)
                raise
            finally:
                self._close()
                for future in self._judging:
                    future.cancel()

    def _step(self, threads: ThreadPoolExecutor) -> bool:
        """Hand out all that can be begun, go on with what is written; say whether anything is left."""
        moved = self._judge_more(threads)
        moved |= self._write_more()
        moved |= self._read_letters()
        if not self._judging and not self._letters:
            # A question for no kind of work ends what has nothing left.
            self._search.ask(())
            return moved or not (self._search.ended or self._search.paused)
        # Who waits for answers looks for them; who waits for judges alone sleeps until one is done.
        self._collect(0 if moved else _LOOK_SECONDS if self._letters else None)
        return True

    def _judge_more(self, threads: ThreadPoolExecutor) -> bool:
        busy = [judge for _, judge in self._judging.values()]
        free = [judge for judge in self._judges if not any(judge is one for one in busy)]
        begun = False
        while free and self._room(judging=True):
            work = self._search.ask((JudgeNode,))
            if not isinstance(work, JudgeNode):
                break
            begun = True
            self._watcher.begins(work)
            known = self._storage.outcome(work.key)
            if known is not None:
                self._tell(work, known)
                continue
            judge = free.pop()
            future = threads.submit(judge.judge, work.node.draft.source)
            self._judging[future] = (work, judge)
        return begun

    def _write_more(self) -> bool:
        """Begin writings; an author that answers at once writes one, and judges get their turn."""
        begun = False
        while len(self._letters) < self._writers and self._room(judging=False):
            work = self._search.ask(_WRITING)
            if work is None:
                break
            begun = True
            self._watcher.begins(work)
            letter = _Letter(work, self._writing(work))
            self._letters.append(letter)
            if self._go_on(letter):
                break
        return begun

    def _read_letters(self) -> bool:
        done = [self._go_on(letter) for letter in tuple(self._letters)]
        return any(done)

    def _go_on(self, letter: _Letter) -> bool:
        """Take a writing as far as it goes without waiting; say whether it is done."""
        self._witness.clear()
        try:
            next(letter.waiting)
        except StopIteration as end:
            self._letters.remove(letter)
            self._noted(letter)
            result: Result = end.value
            if isinstance(letter.work, WriteIdeas):
                assert isinstance(result, IdeasResult)
                result = IdeasResult(
                    ideas=result.ideas,
                    retrieved=tuple(letter.documents),
                    subjects=tuple(letter.subjects),
                )
            self._tell(letter.work, result)
            return True
        self._noted(letter)
        return False

    def _noted(self, letter: _Letter) -> None:
        letter.documents.update(dict.fromkeys(self._witness.documents()))
        letter.subjects.update(dict.fromkeys(self._witness.subjects()))

    def _writing(self, work: Work) -> Waiting[Result]:
        """Do a piece of work; yield as long as its answer has not come."""
        if not isinstance(self._author, DeferredAuthor):
            return self._do(work)
        match work:
            case WriteIdeas():
                ideas = yield from self._author.asks_ideas(work.moment, work.count)
                return IdeasResult(ideas=ideas[: work.count])
            case WriteDraft():
                asked = (work.moment, work.idea, work.step.branch, work.siblings)
                return (yield from self._author.asks_draft(*asked))
            case MendDraft():
                return (yield from self._author.asks_repair(work.moment, work.failed))
        return self._do(work)

    def _collect(self, seconds: float | None) -> None:
        """Tell the outcomes that are there, after waiting so long for the first (None: until it comes)."""
        done, _ = wait(self._judging, timeout=seconds, return_when=FIRST_COMPLETED)
        for future in [one for one in self._judging if one in done]:
            work, _ = self._judging.pop(future)
            self._tell(work, future.result())

    def _tell(self, work: Work, result: Result) -> None:
        self._search.tell(work, result)
        self._watcher.ends(work, result)

    def _room(self, *, judging: bool) -> bool:
        """Say whether another candidate may be judged, or written, under the limit of the run."""
        room = self._search.room
        if room is None:
            return True
        graph = self._search.graph
        waiting = len(graph.nodes) - graph.judged + len(self._letters)
        return room > (len(self._judging) if judging else waiting)

    def _close(self) -> None:
        for letter in self._letters:
            letter.waiting.close()
        self._letters.clear()
