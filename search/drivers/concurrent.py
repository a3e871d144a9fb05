"""Drives a search whose author answers by letter: sends all letters of a step before it waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from search.attempt import Draft
from search.authors import Author
from search.drivers.sequential import Driver, Watcher
from search.evaluators import Evaluator
from search.loop import JudgeNode, Result, Search, Work, WriteIdeas
from search.prompting.readings import Witness
from search.runs.storage import Storage, outcome_key

_TICK = 0.2  # seconds between two looks at the keyboard


class Post(Protocol):
    """By which letters go out."""

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of the letters that wait for an answer."""
        ...

    def close(self) -> None:
        """Have everyone who waits stop waiting."""
        ...


class Turn:
    """Lets one thread at a time through code that is not made for several."""

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Let others through while this thread waits for something else."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()


class Waves(Driver):
    """Works in waves: what can be judged, then every source that can be written, then ideas.

    The letters of a wave are out at the same time, and their answers may come in any order. Results
    are told in the order in which they were asked for and once the wave is complete, so that the
    prompts of a run do not depend on who answered first, and a run that is taken up again sends the
    letters that it sent before. An answer is judged while others are waited for; where the judge is far
    away, all that can be judged is handed out before an outcome is waited for.

    Args:
        turn: what the author gives up while it waits for an answer.
        post: by which the author asks.
        context: what an outcome depends on besides the source, as `Search` has it.
        shows: is told the names of the letters that wait, now and then.
    """

    def __init__(  # noqa: PLR0913 - a driver's six parts, and what belongs to letters
        self,
        search: Search,
        author: Author,
        evaluator: Evaluator,
        storage: Storage,
        witness: Witness,
        watcher: Watcher,
        *,
        turn: Turn,
        post: Post,
        context: str,
        shows: Callable[[tuple[str, ...]], None] = lambda _: None,
    ) -> None:
        super().__init__(search, author, evaluator, storage, witness, watcher)
        self._turn = turn
        self._post = post
        self._context = context
        self._shows = shows

    def run(self) -> None:
        """Work until the search has nothing more to ask."""
        # One thread a letter; they sleep, so that their number costs nothing.
        with ThreadPoolExecutor(max_workers=64, thread_name_prefix="letter") as threads:
            try:
                while wave := self._next():
                    self._ride(wave, threads)
            finally:
                self._post.close()

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

    def _ride(self, wave: list[Work], threads: ThreadPoolExecutor) -> None:
        if isinstance(wave[0], JudgeNode):
            for work in wave:
                if isinstance(work, JudgeNode) and self._storage.outcome(work.key) is None:
                    self._evaluator.expect(work.node.draft.source)
            for work in wave:
                self._settle(work)
            return
        answers = []
        for work in wave:
            self._watcher.begins(work)
            answers.append(threads.submit(self._written, work))
        self._await(answers)
        for work, answer in zip(wave, answers, strict=True):
            result = answer.result()
            self._search.tell(work, result)
            self._watcher.ends(work, result)

    def _written(self, work: Work) -> Result:
        with self._turn:
            return self._do(work)

    def _await(self, answers: list[Future[Result]]) -> None:
        """Wait for every answer, and judge the sources among them as they come, or send them to be judged."""
        left = set(answers)
        while left:
            done, left = wait(left, timeout=_TICK, return_when=FIRST_COMPLETED)
            for answer in done:
                draft = answer.result()
                if left and isinstance(draft, Draft):
                    self._judge(draft)
            self._shows(self._post.waiting)

    def _judge(self, draft: Draft) -> None:
        key = outcome_key(draft.source, self._context)
        if self._storage.outcome(key) is None and not self._evaluator.expect(draft.source):
            self._storage.keep_outcome(key, self._evaluator.evaluate(draft.source))
