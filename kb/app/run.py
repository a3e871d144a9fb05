"""Runs a search from its beginning, or goes on with one: setup, judge, driver, lessons, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kb.app.build_session import build, prepare
from kb.app.choices import choose_author
from kb.app.device import judged_by, make_judge, unusual
from kb.app.diagnosis import context_step, diagnoser, looker
from kb.app.drivers import make_driver, make_search, open_remote, open_second_judge, second_zygote
from kb.app.lessons.learning import learn_from
from kb.app.live import working_on
from kb.app.models import model_is_configured
from kb.app.resume import check_same_place, keep_reference, stored_task
from kb.app.session import Session, Setup, about_of, names_of
from kb.config import Home
from kb.errors import ConfigError, ConnectionLost, KbError
from kb.progress import Progress, say
from search.task import Task, TaskFile

if TYPE_CHECKING:
    from search.drivers.sequential import Watcher
    from search.judging import Judge
    from search.judging.limits import Prepared
    from search.outcome import Outcome
    from search.runs.storage import Record

    Watch = Callable[[Record, TaskFile, Progress], Watcher]

_LONGEST = 100  # characters of a task's name in a run's: a folder is named after it


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that ended, or was broken off.

    Attributes:
        report: see `search.runs.report`; the winner's file is written, and named in it.
    """

    run: str
    report: dict[str, Any]
    interrupted: bool = False
    paused: bool = False


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A part of a search, which is then left as it is; another one goes on with it.

    Attributes:
        rounds: of the search.
        tokens: of models that the run may have spent by its end, None for as many as its task says.
    """

    rounds: int
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a search came to.

    Attributes:
        confirmed: outcomes of the finalists, measured again; empty where it was interrupted.
        seconds: wall time, that before a resume included.
    """

    baselines: Mapping[str, float]
    confirmed: Mapping[int, Outcome]
    seconds: float
    interrupted: bool
    paused: bool = False


def evolve(
    home: Home,
    task: Task,
    progress: Progress,
    watch: Watch,
    begun: Callable[[str], None] = lambda _run: None,
    turn: Turn | None = None,
) -> Ended:
    """Run a search from its beginning.

    Args:
        watch: makes what shows each candidate as it is judged.
        begun: takes the run's name as soon as it has one that `resume` can go on with.
        turn: the part of the search that is done now; None for all of it.
    """
    from kb.database import open_engine, outlast

    began = time.monotonic()
    try:
        setup = prepare(home, task, progress, judges=True)
    except ConnectionLost:
        setup = outlast(open_engine(home), lambda: prepare(home, task, progress, judges=True))
    given = about_of(setup)
    setup = _capped(setup, turn)
    record = setup.storage.begin(task_slug(task), given)
    try:
        with closing(setup), working_on(home, record.run):
            session = _built(setup, record, progress, begun)
            found = _search(session, record, began, progress, watch, turn)
            return _conclude(session, record, found)
    except ConnectionLost as lost:
        say(f"{record.run} goes on from its record: {lost}")
    return resume(home, record.run, progress, watch, lambda _: None, turn)


def _built(
    setup: Setup, record: Record, progress: Progress, begun: Callable[[str], None]
) -> Session:
    """Put a run together that has just begun, and keep what going on with it takes."""
    from search.runs.snapshot import RunSnapshot

    try:
        with _interruptible(record):
            session = build(setup, record.run, progress)
    except (ConnectionLost, KeyboardInterrupt):
        keep_reference(setup.home, record.run, setup.task)
        begun(record.run)
        raise
    except KbError:  # what cannot be built never began
        RunSnapshot(setup.storage.engine, record.run).forget()
        record.withdraw()
        raise
    keep_reference(setup.home, record.run, setup.task)
    begun(record.run)
    return session


def resume(
    home: Home,
    run: str,
    progress: Progress,
    watch: Watch,
    announce: Callable[[str], None],
    turn: Turn | None = None,
) -> Ended:
    """Go on with a run; one that is finished is only reported.

    Args:
        announce: takes what the user should know before the search goes on.
        turn: the part of the search that is done now; None for all that is left.

    Raises:
        ConfigError: it is worked on from outside or by another process, or began on another device.
    """
    from kb.database import open_engine, outlast
    from search.runs.storage import Storage

    engine = open_engine(home)
    outlast(engine, lambda: Storage(engine).run(run))  # there is such a run

    def go_on() -> Ended:
        engine.dispose()  # it waits for a database that is away, and is of no use beside the run
        # A lost connection may have held the run: it is held anew, or another process has it now.
        with working_on(home, run):
            return _go_on(home, run, progress, watch, announce, turn)

    # Whatever the last transaction before a lost connection came to is in the record or is not.
    return outlast(engine, go_on)


def _go_on(
    home: Home,
    run: str,
    progress: Progress,
    watch: Watch,
    announce: Callable[[str], None],
    turn: Turn | None,
) -> Ended:
    from kb.database import open_engine
    from search.runs.storage import Storage

    began = time.monotonic()
    storage = Storage(open_engine(home))
    row = storage.run(run)
    if row.status == "finished" and row.report is not None:
        say(f"{run} is finished already")
        return Ended(run=run, report=_with_file(home, run, dict(row.report)))
    if row.about["author"] == "mcp":
        raise ConfigError(f"{run} is worked on from outside: open_task of `kb mcp` goes on with it")
    task = stored_task(home, run, row.about)
    for line in notices(task):
        announce(line)
    with closing(prepare(home, task, progress, judges=True)) as whole:
        setup = _capped(whole, turn)
        check_same_place(row.about, setup)
        record = storage.record(run)
        record.mark("running")
        with _interruptible(record):
            session = build(setup, run, progress, as_of=row.started)
        found = _search(session, record, began - record.elapsed, progress, watch, turn)
        return _conclude(session, record, found)


def notices(task: Task) -> tuple[str, ...]:
    """Return what the user should know first: that no language model is at work, or nothing is retrieved."""
    lines = []
    if not task.settings.retrieval:
        lines.append("Retrieval is off: authors are given no passages.")
    if choose_author(task.settings) == "recipes":
        reason = (
            "The offline author was asked for"
            if model_is_configured(task.settings)
            else "No language model is configured"
        )
        lines.append(
            f"{reason}: ideas and sources come from the knowledge base alone "
            "(a model is set by `model:` in the task, or KB_MODEL)."
        )
        if len(task.settings.workloads) > 1:
            lines.append(
                "The offline author writes for the shapes of one workload: what it writes may fail on the others."
            )
    return tuple(lines)


def _capped(setup: Setup, turn: Turn | None) -> Setup:
    """Return the setup with the tokens that a turn leaves it."""
    if turn is None or turn.tokens is None:
        return setup
    settings = setup.task.settings
    caps = [cap for cap in (settings.stop.tokens, turn.tokens) if cap is not None]
    stop = settings.stop.model_copy(update={"tokens": min(caps)})
    task = replace(setup.task, settings=settings.model_copy(update={"stop": stop}))
    return replace(setup, task=task)


def _search(
    session: Session,
    record: Record,
    began: float,
    progress: Progress,
    watch: Watch,
    turn: Turn | None,
) -> SearchResult:
    from synth.models.budgeted import Exhausted

    def elapsed() -> float:
        return time.monotonic() - began - session.mail.seconds

    with _mendable(record):
        session.mail.open(record.run)
    with ExitStack() as held:
        judge = held.enter_context(open_judge(session))
        with _interruptible(record):
            prepared = judge.prepare(progress)
        zygote = held.enter_context(second_zygote(session))
        tell(prepared)
        context = outcome_context(session, judge)
        diagnose = diagnoser(session, prepared.baselines, looker(session, judge))
        search = make_search(session, record, context_step(session, diagnose), elapsed, context)
        if turn is not None:
            search.pause_after(turn.rounds)
        watcher = watch(record, session.task.settings, progress)
        driver = make_driver(session, search, judge, watcher, context, progress)
        confirmed: dict[int, Outcome] = {}
        interrupted = False
        try:
            with _mendable(record):
                try:
                    driver.run()
                except Exhausted as spent:
                    record.finish_search(str(spent))
                if not search.paused:
                    progress("the best again, before a second judge")
                    with open_second_judge(session, judge, zygote) as second:
                        confirmed = driver.confirm(context, second)
        except KeyboardInterrupt:
            interrupted = True
    return SearchResult(
        baselines=prepared.baselines,
        confirmed=confirmed,
        seconds=elapsed(),
        interrupted=interrupted,
        paused=search.paused,
    )


@contextmanager
def _mendable(record: Record) -> Iterator[None]:
    """Say how to go on where an error ends a run: what was found and paid for is in its record."""
    try:
        yield
    except ConnectionLost:
        raise  # nothing can be written; once the database is back, the run goes on
    except KbError:
        record.mark("interrupted")
        say(f"{record.run} stops here: `kb resume {record.run}` goes on once this is mended")
        raise


@contextmanager
def _interruptible(record: Record) -> Iterator[None]:
    """Say how to go on where the user ends the preparation, which waits where a judge is far away."""
    try:
        yield
    except KeyboardInterrupt:
        record.mark("interrupted")
        say(f"interrupted: `kb resume {record.run}` goes on from here")
        raise


def tell(prepared: Prepared) -> None:
    """Say what the user should know before the first candidate."""
    for line in prepared.notes:
        say(line)
    for name, reason in prepared.dropped:
        say(f"not judged on '{name}' inputs: {reason}")
    if prepared.compile_error is not None:
        say(f"torch.compile is no baseline here: {prepared.compile_error}")


def _conclude(session: Session, record: Record, found: SearchResult) -> Ended:
    from search.runs.report import build_report
    from search.runs.spending import spending

    about = {**names_of(session, record.run), "baselines": dict(found.baselines)}
    broken = found.interrupted or found.paused
    if session.place.how != "dry" and not found.paused:  # what was not timed teaches nothing
        done = not found.interrupted
        learn_from(session, record, found.baselines, found.confirmed, finished=done)
    reason = "interrupted" if broken else record.stop_reason
    report = build_report(
        about, record.graph, found.confirmed, stop_reason=reason, seconds=found.seconds
    )
    if broken:
        record.mark("interrupted")
        if found.interrupted:
            say(f"interrupted: `kb resume {record.run}` goes on from here")
    else:
        report["models"] = spending(session.storage.engine, record.run)
        record.finish(report)
    return Ended(
        run=record.run,
        report=_with_file(session.home, record.run, report),
        interrupted=found.interrupted,
        paused=found.paused,
    )


@contextmanager
def open_judge(session: Session) -> Iterator[Judge]:
    """Start the judge, and see that none of its processes outlives it."""
    from search.judging import Prefetching
    from search.judging.serial import serial

    judge: Judge = open_remote(session) or make_judge(
        session.place, session.task, session.problem,
        folder=session.home.root / "cache", zygote=session.zygote,
    )  # fmt: skip
    if session.task.settings.search.overlap and not isinstance(judge, Prefetching):
        judge = serial(judge)
    try:
        yield judge
    finally:
        judge.close()


def outcome_context(session: Session, judge: Judge) -> str:
    """Return what an outcome depends on besides the source."""
    from search.judging import Prefetching

    if isinstance(judge, Prefetching):
        return "/".join(
            (session.task.identity, session.target.name, judge.context, *unusual(session.task))
        )
    return judged_by(session.place, session.task)


def task_slug(task: Task) -> str:
    """Return the task's name as the first part of a run's name."""
    from search.lessons.distill import slug

    name = slug(task.name)[:_LONGEST].strip("-")
    # A portfolio is named portfolio-1: `kb resume` would not know which of the two is meant.
    return "portfolio-task" if name == "portfolio" else name


def _with_file(home: Home, run: str, report: dict[str, Any]) -> dict[str, Any]:
    """Write the best source to its file, and name that in the report."""
    from kb.app.history import best_file
    from kb.runtime.bundle import standalone

    if report["best"] is not None:
        file = best_file(home, run)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(standalone(report["best"]["source"]), encoding="utf-8")
        report["best"]["file"] = str(file)
    return report
