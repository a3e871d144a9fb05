"""Puts the parts of a run together: task, target, judge, knowledge, author, search, report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from kb.app.credit import credit
from kb.app.device import Place, choose_place, judged_by, make_judge, unusual
from kb.app.diagnosis import context_step, diagnoser, looker
from kb.app.factories import (
    check_settings,
    choose_author,
    choose_language,
    make_author,
)
from kb.app.learning import learn_from, open_memory
from kb.app.mailbox import open_mail, seconds_waited, with_mailbox
from kb.app.models import make_cast, model_is_configured
from kb.app.resume import check_same_place, keep_reference, open_accounts, stored_task
from kb.cli.render.output import print_json, steps
from kb.config import Home
from kb.errors import ConfigError, KbError
from kb.progress import Progress, say
from kb.records.schema import TargetRecord
from search.task import Task

if TYPE_CHECKING:
    from search.authors import Author
    from search.authors.model_pool import Cast
    from search.costs.graph import OperatorGraph, Work
    from search.judging.cpu.judge import Judge
    from search.judging.limits import Prepared
    from search.judging.spool.client import Spool
    from search.outcome import Outcome
    from search.prompting.knowledge_view import Memory
    from search.prompting.readings import Witness
    from search.reference import Problem
    from search.runs.snapshot import Given
    from search.runs.spending import Ledger
    from search.runs.storage import Record, Storage

NO_CANDIDATE = 4
INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Session:
    """Everything that one run works with."""

    home: Home
    task: Task
    place: Place
    language: str
    author_name: str
    problem: Problem
    graph: OperatorGraph
    work: Work
    author: Author
    cast: Cast
    ledger: Ledger
    given: Given
    storage: Storage
    memory: Memory

    @property
    def target(self) -> TargetRecord:
        """The record of the device that candidates are for."""
        return self.place.target

    @property
    def witness(self) -> Witness:
        """What is asked for passages, and notes them."""
        return self.memory.retriever


def evolve(home: Home, task: Task, *, as_json: bool) -> int:
    """Run a search from its beginning; return the exit code."""
    began = time.monotonic()
    announce(task, as_json=as_json)
    with steps() as progress:
        session = prepare(home, task, progress)
        record = session.storage.begin(task_slug(task), about_of(session))
        keep_reference(home, record.run, task)
        found = _search(session, record, began, progress)
    return _conclude(session, record, found, as_json=as_json)


def resume(home: Home, run: str, *, as_json: bool) -> int:
    """Go on with a run; return the exit code."""
    from kb.database import open_engine
    from search.runs.storage import Storage

    began = time.monotonic()
    storage = Storage(open_engine(home))
    row = storage.run(run)
    if row.status == "finished" and row.report is not None:
        say(f"{run} is finished already")
        return publish(home, run, dict(row.report), as_json=as_json)
    if row.about["author"] == "mcp":
        raise ConfigError(f"{run} is worked on from outside: open_task of `kb mcp` goes on with it")
    task = stored_task(home, run, row.about)
    announce(task, as_json=as_json)
    with steps() as progress:
        session = prepare(home, task, progress, as_of=row.started)
        check_same_place(row.about, session)
        record = storage.record(run)
        record.mark("running")
        found = _search(session, record, began - record.elapsed, progress)
    return _conclude(session, record, found, as_json=as_json)


def announce(task: Task, *, as_json: bool) -> None:
    """Say first of all when no language model is at work, and when nothing is retrieved."""
    if not task.settings.retrieval:
        typer.echo("Retrieval is off: authors are given no passages.", err=as_json)
    if choose_author(task.settings) != "recipes":
        return
    reason = (
        "The offline author was asked for"
        if model_is_configured(task.settings)
        else "No language model is configured"
    )
    typer.echo(
        f"{reason}: ideas and sources come from the knowledge base alone "
        "(a model is set by `model:` in the task, or KB_MODEL).",
        err=as_json,
    )


def prepare(
    home: Home,
    task: Task,
    progress: Progress,
    *,
    as_of: float | None = None,
    place: Place | None = None,
    asks: bool = True,
) -> Session:
    """Load and check everything; a run that is resumed ranks by what was known `as_of` its start.

    Args:
        place: where candidates are judged, where the task is not to say.
        asks: False where no model is ever asked, and none need be there.
    """
    from kb.database import open_engine
    from search.authors.model_pool import Cast
    from search.runs.snapshot import Given
    from search.runs.spending import Ledger
    from search.runs.storage import Storage

    task = with_mailbox(home, task)
    place = place or choose_place(task.settings.target, elsewhere=task.spool is not None)
    language = choose_language(task.settings.language, place.target)
    if asks:
        check_settings(task.settings, place.how)
    storage = Storage(open_engine(home))
    name = choose_author(task.settings)
    problem, graph, work = _reference(task, place, progress)
    remembers = name != "recipes"  # those list what they try, and cannot say it in other words
    memory = open_memory(home, storage, task, progress, as_of=as_of, remembers=remembers)
    ledger = Ledger(storage.engine, task.settings.stop)
    cast = make_cast(home, task.settings, storage, ledger, progress) if asks else Cast({})
    author = make_author(name, task, place.target, graph, work, memory, cast)
    return Session(
        home=home,
        task=task,
        place=place,
        language=language,
        author_name=name,
        problem=problem,
        graph=graph,
        work=work,
        author=author,
        cast=cast,
        ledger=ledger,
        given=Given(storage.engine),
        storage=storage,
        memory=memory,
    )


def _reference(task: Task, place: Place, progress: Progress) -> tuple[Problem, OperatorGraph, Work]:
    """Load the reference, with its operators and what they cost."""
    from search.costs.trace import operator_graph
    from search.costs.work import count_work
    from search.reference import load_problem

    progress("loading the reference")
    problem = load_problem(task, device=place.device)
    graph = operator_graph(problem)
    return problem, graph, count_work(graph)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search came to.

    Attributes:
        confirmed: outcomes of the finalists, measured again; empty where it was interrupted.
        seconds: wall time, that before a resume included.
    """

    baselines: Mapping[str, float]
    confirmed: Mapping[int, Outcome]
    seconds: float
    interrupted: bool


def _search(session: Session, record: Record, began: float, progress: Progress) -> Found:
    from kb.app.drivers import make_driver, make_search
    from kb.cli.render.progress import Screen
    from synth.models.budgeted import Exhausted

    def elapsed() -> float:
        return time.monotonic() - began - seconds_waited()

    open_mail(record.run)
    open_accounts(session, record.run)
    with open_judge(session) as judge:
        with _interruptible(record):
            prepared = judge.prepare(progress)
        tell(prepared)
        context = outcome_context(session, judge)
        diagnose = diagnoser(session, prepared.baselines, looker(session, judge))
        search = make_search(session, record, context_step(session, diagnose), elapsed, context)
        screen = Screen(record, session.task.settings, progress)
        driver = make_driver(session, search, judge, screen, context, progress)
        confirmed: dict[int, Outcome] = {}
        interrupted = False
        try:
            try:
                driver.run()
            except Exhausted as spent:
                record.finish_search(str(spent))
            progress("measuring the best again")
            confirmed = driver.confirm(context)
        except KeyboardInterrupt:
            interrupted = True
        except KbError:
            # What was found and paid for is in the record: a mended run goes on from there.
            record.mark("interrupted")
            say(f"{record.run} stops here: `kb resume {record.run}` goes on once this is mended")
            raise
    return Found(
        baselines=prepared.baselines,
        confirmed=confirmed,
        seconds=elapsed(),
        interrupted=interrupted,
    )


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


def _conclude(session: Session, record: Record, found: Found, *, as_json: bool) -> int:
    from search.runs.report import build_report
    from search.runs.spending import spending

    about = {**names_of(session, record.run), "baselines": dict(found.baselines)}
    if session.place.how != "dry":
        credit(session, record, found.baselines, found.confirmed)
    reason = "interrupted" if found.interrupted else record.stop_reason
    report = build_report(
        about, record.graph, found.confirmed, stop_reason=reason, seconds=found.seconds
    )
    if found.interrupted:
        record.mark("interrupted")
        say(f"interrupted: `kb resume {record.run}` goes on from here")
    else:
        if session.place.how != "dry":  # what was not timed teaches nothing
            learn_from(session, record, found.baselines, found.confirmed)
        report["models"] = spending(session.storage.engine, record.run)
        record.finish(report)
    code = publish(session.home, record.run, report, as_json=as_json)
    return INTERRUPTED if found.interrupted else code


def publish(home: Home, run: str, report: dict[str, Any], *, as_json: bool) -> int:
    """Write the best source to its file and print the report; return the exit code."""
    from kb.app.history import best_file, open_run
    from kb.cli.render.text import report_text
    from kb.runtime.bundle import standalone

    if report["best"] is not None:
        file = best_file(home, run)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(standalone(report["best"]["source"]), encoding="utf-8")
        report["best"]["file"] = str(file)
    if as_json:
        print_json(report)
    else:
        typer.echo(report_text(report, open_run(home, run).path_to_best()))
    return 0 if report["best"] is not None else NO_CANDIDATE


def shapes_line(graph: OperatorGraph) -> str:
    """Return the shapes of inputs and outputs as people write them."""

    def texts(shapes: Iterable[tuple[int, ...]]) -> str:
        return ", ".join("x".join(map(str, shape)) for shape in shapes)

    inputs = (value.shape for value in graph.values if value.kind == "input")
    return f"{texts(inputs)} -> {texts(graph.shape(name) for name in graph.outputs)}"


@contextmanager
def open_judge(session: Session) -> Iterator[Judge | Spool]:
    """Start the judge, and see that none of its processes outlives it."""
    from kb.app.drivers import open_spool

    judge: Judge | Spool = open_spool(session) or make_judge(
        session.place,
        session.problem,
        seed=session.task.settings.search.seed,
        folder=session.home.root / "cache",
    )
    try:
        yield judge
    finally:
        judge.close()


def outcome_context(session: Session, judge: Judge | Spool) -> str:
    """Return what an outcome depends on besides the source."""
    from search.judging.spool.client import Spool

    if isinstance(judge, Spool):
        return "/".join(
            (session.task.identity, session.target.name, judge.context, *unusual(session.task))
        )
    return judged_by(session.place, session.task)


def task_slug(task: Task) -> str:
    """Return the task's name as the first part of a run's name."""
    from search.lessons.distill import slug

    return slug(task.name)


def names_of(session: Session, run: str) -> dict[str, Any]:
    """Return what names a run in reports."""
    return {
        "run": run,
        "task": session.task.name,
        "target": session.target.name,
        "language": session.language,
        "author": session.author_name,
    }


def about_of(session: Session) -> dict[str, Any]:
    """Return what the record of a run keeps of everything that was known when it began."""
    task = session.task
    return {
        **names_of(session, ""),
        "path": str(task.path),
        "reference": str(task.reference),
        "source": task.source,
        "settings": task.settings.model_dump(mode="json"),
        "work": asdict(session.work),
    }
