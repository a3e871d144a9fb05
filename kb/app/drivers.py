"""What a run is searched by, and who drives it: in batches where the judge is a trip away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kb.progress import say

if TYPE_CHECKING:
    from kb.app.mailbox import Mail
    from kb.app.session import Session
    from kb.progress import Progress
    from search.attempt import Attempt, Diagnosis
    from search.drivers.sequential import Driver, Watcher
    from search.judging import Judge
    from search.loop import Search
    from search.runs.storage import Record
    from search.sandbox.zygote import Zygote


def open_remote(session: Session) -> Judge | None:
    """Return the judge behind a spool folder or the database, None where the task judges here."""
    task = session.task
    if not task.elsewhere:
        return None
    from search.judging.spool.job import assign

    assignment = assign(task, session.target)
    if task.spool is not None:
        from search.judging.spool.client import Spool

        return Spool(task.spool, assignment, say=say)
    from search.work.client import QueuedJudge
    from search.work.queue import WorkQueue

    return QueuedJudge(WorkQueue(session.storage.engine), assignment, say=say)


@contextmanager
def second_zygote(session: Session) -> Iterator[Zygote | None]:
    """Start the warm process of the second judge beside a search on a GPU; None elsewhere.

    Its imports take ten seconds. On a processor they would disturb what is timed.
    """
    if session.place.how != "cuda" or session.task.elsewhere or session.task.settings.workloads:
        yield None
        return
    from search.judging.cuda.worker import make_zygote

    zygote = make_zygote()
    zygote.begin()
    try:
        yield zygote
    finally:
        zygote.close()


@contextmanager
def open_second_judge(
    session: Session, first: Judge, zygote: Zygote | None = None
) -> Iterator[Judge]:
    """Start the judge that looks at the best once more, with processes and secrets of its own.

    The first one is closed: a device may hold the memory of one only. What was only compiled has no clock
    to fool, and a judge that is a trip away takes another judge for thorough jobs by itself.

    Args:
        zygote: see `second_zygote`.
    """
    from kb.app.device import make_judge
    from search.judging import Inheriting, Prefetching

    if session.place.how == "dry" or isinstance(first, Prefetching):
        yield first
        return
    first.close()
    folder = session.home.root / "cache"
    judge = make_judge(session.place, session.task, session.problem, folder=folder, zygote=zygote)
    if isinstance(first, Inheriting) and isinstance(judge, Inheriting):
        judge.measured = first.measured
    try:
        yield judge
    finally:
        judge.close()


def make_search(
    session: Session,
    record: Record,
    diagnose: Callable[[Attempt | None], Diagnosis],
    elapsed: Callable[[], float],
    context: str,
) -> Search:
    """Return the search over `record`, which keeps what `diagnose` says of each node."""
    from search.loop import Search
    from search.policies import make_policy

    settings = session.task.settings
    return Search(
        record,
        make_policy(settings.search),
        settings,
        session.given.diagnose(diagnose),
        elapsed,
        context=context,
        memory=None if session.author_name == "recipes" else settings.search.memory,
    )


def make_driver(
    session: Session,
    search: Search,
    judge: Judge,
    watcher: Watcher,
    context: str,
    progress: Progress,
) -> Driver:
    """Return who drives the search: in batches where an answer takes a trip, overlapped where asked for."""
    from search.authors import DeferredAuthor
    from search.drivers.batched import BatchedDriver
    from search.drivers.concurrent import ConcurrentDriver
    from search.drivers.overlapped import OverlappedDriver
    from search.drivers.sequential import Driver
    from search.judging import Prefetching

    others = (session.storage, session.witness, watcher)
    if session.mail and isinstance(session.author, DeferredAuthor):
        return ConcurrentDriver(
            search,
            session.author,
            judge,
            *others,
            context=context,
            pause=lambda: _pause(session.mail, progress),
        )
    if isinstance(judge, Prefetching):
        return BatchedDriver(search, session.author, judge, *others)
    if session.task.settings.search.overlap:
        writers = max((one.settings.concurrency for one in session.cast.members("code")), default=1)
        return OverlappedDriver(search, session.author, [judge], *others, writers=writers)
    return Driver(search, session.author, judge, *others)


def _pause(mail: Mail, progress: Progress) -> None:
    """Wait a moment for letters that are out, and show them."""
    from synth.models.waiting import LOOK_SECONDS

    mail.show(progress)
    time.sleep(LOOK_SECONDS)
