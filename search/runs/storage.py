"""The record of runs in SQL: append-only nodes, outcomes by content, every prompt and reply.

Each addition is one transaction and so a checkpoint: a killed run loses at most what was in flight.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    Engine,
    String,
    Table,
    Text,
    bindparam,
    delete,
    exists,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from kb.database import DatabaseClock, create_tables, outlast, reading, writing
from kb.errors import StoreError
from kb.retrieval.effect_store import add_retrieval
from search.attempt import Draft, Idea
from search.graph import Graph, Node, Proposal, Slot, Step, hash_source
from search.outcome import Outcome, Passed, from_json, to_json
from search.runs.tables import DEAD_ENDS, EXCHANGES, NODES, OUTCOMES, PROPOSALS, RUNS, SOURCES
from synth.models import Reply, Request

# Built once: building a statement takes longer than executing it, and these run for every candidate.
_ADD_SOURCE = insert(SOURCES).from_select(
    ["hash", "text"],
    select(bindparam("content", type_=String), bindparam("text", type_=Text)).where(
        ~exists().where(SOURCES.c.hash == bindparam("content", type_=String))
    ),
)
_ADD_OUTCOME = (
    insert(OUTCOMES)
    .from_select(
        ["key", "outcome", "judged"],
        select(
            bindparam("name", type_=String),
            bindparam("outcome", type_=Text),
            DatabaseClock(),  # as calls of models are booked by, beside which it is shown
        ).where(~exists().where(OUTCOMES.c.key == bindparam("name", type_=String))),
    )
    .execution_options(preserve_rowcount=True)
)
_ADD_NODE = insert(NODES)
_JUDGE_NODE = (
    update(NODES)
    .where(NODES.c.run == bindparam("of"), NODES.c.number == bindparam("node"))
    .values(outcome=bindparam("name"), elapsed=bindparam("seconds"))
)
_SET_ELAPSED = (
    update(RUNS).where(RUNS.c.run == bindparam("of")).values(elapsed=bindparam("seconds"))
)
_OUTCOME = select(OUTCOMES.c.outcome).where(OUTCOMES.c.key == bindparam("name"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One line of `kb runs`."""

    run: str
    about: Mapping[str, Any]
    started: float
    status: str
    stop_reason: str | None
    report: Mapping[str, Any] | None
    elapsed: float


class Storage:
    """Everything that runs leave behind, over one database.

    Args:
        engine: from `kb.database.open_engine`.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        create_tables(engine)

    def begin(self, task: str, about: Mapping[str, Any]) -> Record:
        """Start a run of `task` under the next free name, e.g. ``conv2d-3``."""
        told, started = json.dumps(about, sort_keys=True), time.time()
        return outlast(self.engine, lambda: Record(self.engine, self._begin(task, told, started)))

    def _begin(self, task: str, about: str, started: float) -> str:
        """Return the name of the run that began then: it may have, just before a connection was lost."""
        begun = select(RUNS.c.run).where(RUNS.c.started == started, RUNS.c.about == about)
        for _ in range(100):
            with reading(self.engine) as session:
                taken = set(session.scalars(select(RUNS.c.run).where(RUNS.c.run.like(f"{task}-%"))))
                mine: list[str] = [one for one in session.scalars(begun) if one in taken]
            if mine:
                return mine[0]
            number = next(n for n in range(1, len(taken) + 2) if f"{task}-{n}" not in taken)
            run = f"{task}-{number}"
            row = {"run": run, "about": about, "started": started, "status": "running"}
            try:
                with writing(self.engine) as session:
                    session.execute(insert(RUNS).values(**row, elapsed=0.0))
            except IntegrityError:
                continue  # another process took the name between the two statements
            return run
        raise StoreError(f"no free name for a run of {task!r}: give the task another 'name:'")

    def runs(self) -> list[RunRow]:
        """Return every run, oldest first."""
        with reading(self.engine) as session:
            rows = session.execute(select(RUNS).order_by(RUNS.c.number)).all()
        return [_run_row(row) for row in rows]

    def run(self, name: str) -> RunRow:
        """Return one run.

        Raises:
            StoreError: there is no such run; the message names the latest ones.
        """
        with reading(self.engine) as session:
            row = session.execute(select(RUNS).where(RUNS.c.run == name)).one_or_none()
        if row is None:
            latest = [run.run for run in self.runs()[-5:]]
            known = f"latest are {', '.join(latest)}" if latest else "there are no runs yet"
            raise StoreError(f"no run {name!r}: {known} (kb runs lists all)")
        return _run_row(row)

    def record(self, name: str) -> Record:
        """Open the record of an existing run, with its graph."""
        self.run(name)
        return Record(self.engine, name)

    def retrievals(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return, per request for ideas, the run and the documents that retrieval returned."""
        with reading(self.engine) as session:
            rows = session.execute(select(PROPOSALS.c.run, PROPOSALS.c.retrieved)).all()
        return [(run, tuple(json.loads(retrieved))) for run, retrieved in rows]

    def outcome(self, key: str) -> Outcome | None:
        """Return what was judged before under `key`, in this run or another."""
        with reading(self.engine) as session:
            text = session.connection().scalar(_OUTCOME, {"name": key})
        return None if text is None else from_json(text)

    def keep_outcome(self, key: str, outcome: Outcome) -> None:
        """Store an outcome under its content's name; the first one stays."""
        row = {"key": key, "outcome": to_json(outcome), "judged": DatabaseClock()}
        self._insert_once(OUTCOMES, OUTCOMES.c.key == key, row)

    def get(self, key: str) -> Reply | None:
        """Return the reply that was kept for a request."""
        with reading(self.engine) as session:
            text = session.scalar(select(EXCHANGES.c.reply).where(EXCHANGES.c.key == key))
        return None if text is None else Reply(**json.loads(text))

    def put(self, key: str, request: Request, reply: Reply) -> None:
        """Keep a request and its reply."""
        row = {
            "key": key,
            "request": json.dumps(asdict(request), sort_keys=True),
            "reply": json.dumps(asdict(reply), sort_keys=True),
            "at": time.time(),
        }
        self._insert_once(EXCHANGES, EXCHANGES.c.key == key, row)

    def exchange(self, key: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return a kept request and its reply as plain values, for people to read."""
        with reading(self.engine) as session:
            row = session.execute(
                select(EXCHANGES.c.request, EXCHANGES.c.reply).where(EXCHANGES.c.key == key)
            ).one_or_none()
        return None if row is None else (json.loads(row[0]), json.loads(row[1]))

    def _insert_once(self, table: Table, same: Any, row: Mapping[str, Any]) -> None:
        def write() -> None:
            with writing(self.engine) as session:
                if session.execute(select(table).where(same)).first() is None:
                    session.execute(insert(table).values(**row))

        try:
            outlast(self.engine, write)  # a reply was paid for: it is not dropped
        except IntegrityError:
            return  # another process stored it first: content decides identity


class Record:
    """One run: its graph, and the only way to add to it."""

    def __init__(self, engine: Engine, run: str) -> None:
        self.engine = engine
        self.run = run
        self.graph = Graph()
        self.stop_reason: str | None = None
        self.elapsed = 0.0
        self._load()

    def add_proposal(self, proposal: Proposal) -> None:
        """Store the ideas of a slot."""
        row: dict[str, Any] = {
            "slot": f"{proposal.slot.round}.{proposal.slot.parent}",
            "parent": proposal.parent,
            "ideas": json.dumps([asdict(idea) for idea in proposal.ideas]),
            "retrieved": json.dumps(proposal.retrieved),
        }
        with writing(self.engine) as session:
            session.execute(insert(PROPOSALS).values(run=self.run, **row))
            add_retrieval(session, self.run, row["slot"], proposal.subjects)
        self.graph.proposals[proposal.slot] = proposal

    def add_node(self, node: Node) -> None:
        """Store a draft at its place in the graph."""
        draft = asdict(node.draft)
        text = draft.pop("source")
        row = {
            "number": node.number,
            "step": node.step.key,
            "parent": node.parent,
            "source": node.source_hash,
            "draft": json.dumps(draft),
        }
        with writing(self.engine) as session:
            execute = session.connection().execute
            execute(_ADD_SOURCE, {"content": node.source_hash, "text": text})
            execute(_ADD_NODE, {"run": self.run, **row})
        self.graph.add(node)

    def add_outcome(self, node: Node, outcome: Outcome, *, key: str, elapsed: float) -> None:
        """Store a node's outcome, under its content's name unless that is known already.

        Where another run has recorded one meanwhile, that is the node's: the graph in memory is the one
        that a resumed run reads. What a machine told that was too busy is this run's alone: the next one has
        the source judged anew.
        """
        if isinstance(outcome, Passed) and outcome.unseen:
            key = outcome_key(key, self.run)
        told = {"name": key, "outcome": to_json(outcome)}
        with writing(self.engine) as session:
            execute = session.connection().execute
            if execute(_ADD_OUTCOME, told).rowcount == 0:
                outcome = from_json(execute(_OUTCOME, {"name": key}).scalar_one())
            mine = {"of": self.run, "node": node.number, "name": key, "seconds": elapsed}
            execute(_JUDGE_NODE, mine)
            execute(_SET_ELAPSED, {"of": self.run, "seconds": elapsed})
        self.elapsed = elapsed
        self.graph.judge(node.number, outcome)

    def add_dead_end(self, step: Step) -> None:
        """Store that the author had nothing for a step."""
        self._insert(DEAD_ENDS, {"step": step.key})
        self.graph.dead_ends.add(step)

    def finish_search(self, reason: str) -> None:
        """Store why the search ended."""
        self._update(stop_reason=reason)
        self.stop_reason = reason

    def finish(self, report: Mapping[str, Any]) -> None:
        """Store the report: the run is complete."""
        self._update(status="finished", report=json.dumps(report))

    def mark(self, status: str) -> None:
        """Store whether the run is running or was interrupted."""
        self._update(status=status)

    def withdraw(self) -> None:
        """Remove a run that never began to search: its name is free again."""
        with writing(self.engine) as session:
            session.execute(delete(RUNS).where(RUNS.c.run == self.run))

    def _update(self, **values: Any) -> None:
        with writing(self.engine) as session:
            session.execute(update(RUNS).where(RUNS.c.run == self.run).values(**values))

    def _insert(self, table: Table, row: Mapping[str, Any]) -> None:
        with writing(self.engine) as session:
            session.execute(insert(table).values(run=self.run, **row))

    def _load(self) -> None:
        with reading(self.engine) as session:
            run = session.execute(select(RUNS).where(RUNS.c.run == self.run)).one()
            proposals = session.execute(select(PROPOSALS).where(PROPOSALS.c.run == self.run)).all()
            nodes = session.execute(
                select(NODES, SOURCES.c.text, OUTCOMES.c.outcome.label("verdict"))
                .join(SOURCES, SOURCES.c.hash == NODES.c.source)
                .outerjoin(OUTCOMES, OUTCOMES.c.key == NODES.c.outcome)
                .where(NODES.c.run == self.run)
                .order_by(NODES.c.number)
            ).all()
            steps = session.scalars(
                select(DEAD_ENDS.c.step).where(DEAD_ENDS.c.run == self.run)
            ).all()
        self.stop_reason, self.elapsed = run.stop_reason, run.elapsed
        for row in proposals:
            round, parent = map(int, row.slot.split("."))
            ideas = tuple(_idea(values) for values in json.loads(row.ideas))
            slot = Slot(round, parent)
            self.graph.proposals[slot] = Proposal(
                slot=slot,
                parent=row.parent,
                ideas=ideas,
                retrieved=tuple(json.loads(row.retrieved)),
            )
        for row in nodes:
            self.graph.add(self._node(row))
        self.graph.dead_ends.update(Step.parse(step) for step in steps)

    def _node(self, row: Any) -> Node:
        step = Step.parse(row.step)
        values = json.loads(row.draft)
        return Node(
            number=row.number,
            step=step,
            parent=row.parent,
            idea=self.graph.proposals[step.slot].ideas[step.idea],
            draft=Draft(
                source=row.text,
                plan=values["plan"],
                passages=tuple(values["passages"]),
                exchanges=tuple(values["exchanges"]),
            ),
            outcome=None if row.verdict is None else from_json(row.verdict),
        )


def outcome_key(source: str, *context: str) -> str:
    """Return the name of an outcome: the source with its task, target and judge."""
    return hash_source("\0".join((source, *context)))


def _idea(values: dict[str, Any]) -> Idea:
    values["passages"] = tuple(values["passages"])
    values["exchanges"] = tuple(values["exchanges"])
    return Idea(**values)


def _run_row(row: Any) -> RunRow:
    return RunRow(
        run=row.run,
        about=json.loads(row.about),
        started=row.started,
        status=row.status,
        stop_reason=row.stop_reason,
        report=json.loads(row.report) if row.report else None,
        elapsed=row.elapsed,
    )
