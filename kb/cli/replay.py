"""The command that plays a run again from its record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kb.cli.render.output import JSON, print_json, steps
from kb.config import Home
from kb.progress import say

if TYPE_CHECKING:
    from kb.app.device import JudgingDevice
    from kb.app.session import Session
    from search.drivers.replay import Findings, Tape
    from search.drivers.sequential import Driver
    from search.loop import Search
    from search.runs.storage import Record, Storage
    from search.settings import ModelSettings
    from search.task import TaskFile

DIVERGED = 5


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog="Examples: kb replay conv2d-1 | kb replay conv2d-1 --judge --json")(replay)


def replay(
    run: str = typer.Argument(..., help="A run's name, as `kb runs` lists it."),
    judge: bool = typer.Option(
        False, "--judge", help="Judge every candidate again, and say which outcomes differ."
    ),
    trust: bool = typer.Option(
        False, "--trust", help="Run the program of an imported run, with your rights, from now on."
    ),
    json: bool = JSON,
) -> None:
    """Play a run again from its record, with no model; exit code 5 where it diverges."""
    if trust:
        _trust(Home.find(), run)
    found = play(Home.find(), run, judge=judge)
    if json:
        print_json(found)
    else:
        typer.echo(_told(found))
    raise typer.Exit(0 if found["identical"] else DIVERGED)


def _trust(home: Home, run: str) -> None:
    from kb.app.history import open_run
    from search.runs.export import trust_run

    trust_run(open_run(home, run).storage, run)


def play(home: Home, run: str, *, judge: bool) -> dict[str, Any]:
    """Replay a run in a record of its own, which is thrown away; return what differs."""
    from kb.app.history import open_run
    from search.drivers.replay import Findings, missing

    recorded = open_run(home, run)
    findings = Findings()
    with steps() as progress, _scratch() as storage:
        session = _session(home, recorded.row, findings, progress, judge=judge)
        record = storage.begin(recorded.row.about["task"], dict(recorded.row.about))
        progress(f"replaying {run}")
        reason = _run(session, record, storage, recorded, findings, judge=judge)
        left = missing(recorded.graph, record.graph)
        if left and not findings.divergences:
            findings.differs(f"node {left[0]}", f"the replay ends before it ({reason})")
        nodes = len(record.graph.nodes)
    return {
        "run": run,
        "identical": not findings.divergences,
        "nodes": nodes,
        "recorded_nodes": len(recorded.graph.nodes),
        "requests": findings.requests,
        "ended": reason,
        "divergences": [asdict(one) for one in findings.divergences],
        "judged": findings.judged,
    }


def _session(home: Home, row: Any, findings: Findings, progress: Any, *, judge: bool) -> Session:
    """Prepare the run as it was, with a tape in place of its models."""
    from kb.app.build_session import build, prepare
    from kb.app.resume import stored_task
    from search.drivers.replay import Tape

    task = stored_task(home, row.run, row.about)
    place = _place(task.settings.target, row.about["target"], here=judge)
    setup = prepare(home, task, progress, place=place, asks=False)
    tape = Tape(setup.storage, row.run, findings)
    return build(
        setup,
        row.run,
        progress,
        as_of=row.started,
        cast=lambda ledger: _cast(setup.task.settings, tape, ledger),
    )


def _cast(settings: TaskFile, tape: Tape, ledger: Any) -> Any:
    from kb.app.models import role_settings
    from search.authors.model_pool import ModelPool, PoolMember
    from search.drivers.replay import Player

    voices = {
        role: [PoolMember(model=Player(tape, _name(one), role), settings=one) for one in models]
        for role, models in role_settings(settings).items()
    }
    return ModelPool(voices, accounts=ledger)


def _name(settings: ModelSettings) -> str:
    """Return what the record calls a model: a script and a mailbox have names of their own."""
    if settings.provider == "mailbox":
        return settings.provider
    return Path(settings.name).stem if settings.provider == "scripted" else settings.name


def _place(asked: str, recorded: str, *, here: bool) -> JudgingDevice | None:
    """Return where the run was judged: this machine where it is the same, else somewhere else."""
    from kb.app.device import JudgingDevice, choose_place
    from kb.app.queries import find_target
    from kb.errors import KbError

    try:
        place = choose_place(asked)
        if place.target.name == recorded:
            return place
    except KbError:
        if here:
            raise
    if here:
        say(f"this machine is no {recorded}: outcomes are compared all the same")
        return None
    return JudgingDevice(target=find_target(recorded), how="elsewhere")


def _run(
    session: Session,
    record: Record,
    storage: Storage,
    recorded: Any,
    findings: Findings,
    *,
    judge: bool,
) -> str:
    """Play the search to its end; return why it ended."""
    from kb.app.diagnosis import diagnoser
    from kb.app.run import open_judge
    from search.drivers.replay import End, RecordedJudge
    from search.loop import Search
    from search.policies import make_policy
    from synth.models.budgeted import Exhausted

    baselines = (recorded.row.report or {}).get("baselines") or {}
    settings = session.task.settings
    with ExitStack() as stack:
        judging = None
        if judge:
            judging = stack.enter_context(open_judge(session))
            judging.prepare()
        search = Search(
            record,
            make_policy(settings.search),
            settings,
            session.given.diagnose(diagnoser(session, baselines)),
            lambda: 0.0,
            context="replay",
            memory=None if session.author_name == "recipes" else settings.search.memory,
        )
        driver = _driver(
            session,
            search,
            storage,
            RecordedJudge(recorded.graph, findings, judging),
            recorded,
            findings,
        )
        try:
            driver.run()
        except (End, Exhausted) as end:
            return str(end)
    return record.stop_reason or "done"


def _driver(
    session: Session,
    search: Search,
    storage: Storage,
    verdicts: Any,
    recorded: Any,
    findings: Findings,
) -> Driver:
    """Return the driver of the kind that the run had: its order of work decides what prompts know."""
    from search.authors import DeferredAuthor
    from search.drivers.batched import BatchedDriver
    from search.drivers.concurrent import ConcurrentDriver
    from search.drivers.replay import Listener
    from search.drivers.sequential import Driver

    author = session.author
    parts = (verdicts, storage, session.witness, Listener(recorded.graph, findings))
    if session.author_name == "mailbox" and isinstance(author, DeferredAuthor):
        return ConcurrentDriver(search, author, *parts, context="replay")
    kind = BatchedDriver if session.task.elsewhere else Driver
    return kind(search, author, *parts)


@contextmanager
def _scratch() -> Iterator[Storage]:
    """Open a record that is thrown away."""
    from kb.database import open_file
    from search.runs.storage import Storage

    with tempfile.TemporaryDirectory(prefix="kb-replay-") as folder:
        engine = open_file(Path(folder) / "replay.sqlite")
        try:
            yield Storage(engine)
        finally:
            engine.dispose()


def _told(found: dict[str, Any]) -> str:
    head = (
        f"{found['run']}: {found['nodes']} of {found['recorded_nodes']} nodes and "
        f"{found['requests']} requests replayed"
    )
    if found["identical"]:
        lines = [f"{head}, byte for byte as recorded ({found['ended']})"]
    else:
        count = len(found["divergences"])
        lines = [f"{head}; {count} {'place differs' if count == 1 else 'places differ'}:"]
        for one in found["divergences"]:
            lines += [
                f"{one['where']}: {one['what']}",
                *(f"    {line}" for line in one["difference"]),
            ]
    for one in found["judged"]:
        now = one.get("speedup_now")
        gain = (
            f", {one['recorded_speedup']['ratio']:.2f}x then, {now['ratio']:.2f}x now"
            if now
            else ""
        )
        lines.append(f"node {one['node']}: {one['recorded']} then, {one['now']} now{gain}")
    return "\n".join(lines)
