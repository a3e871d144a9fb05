"""Jobs and their answers as rows of the tables: what is kept once for all work that shares it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from kb.database import DatabaseClock
from search.graph import hash_source
from search.judging.spool.job import Failure, Job, JobAnswer, canonical, read_answer, read_job
from search.runs.tables import SOURCES
from search.work.tables import BENCHES, TARGETS, WORK

_NOW = DatabaseClock()
OF_ANOTHER_VERSION = (TypeError, KeyError, ValueError)  # what reading it raises
_UNREADABLE = "expected an answer of this version of kb, found that of another worker's: install the same version on both sides"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkState:
    """Where a piece of work stands.

    Attributes:
        state: waiting, leased, done or failed.
        answer: where it is done.
        failure: where it failed, or was answered by another version of kb.
    """

    state: str
    answer: JobAnswer | None = None
    failure: Failure | None = None


def target_hash(job: Job) -> str:
    """Return the hash of the device that a job needs."""
    body = canonical({"device": job.device, "target": asdict(job.target)})
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def insert_work(session: Session, job: Job) -> None:
    """Add a job that is not there yet, with what it shares with others where they have not brought it."""
    target, bench, source = target_hash(job), job.bench, job.source
    body = {**job.body(), "source": None, "thorough": False, "expected": "", "created": ""}
    any_of_it = {**body, "task": _blank_task(body["task"])}
    for table, column, key, values in (
        (TARGETS, TARGETS.c.target, target, {"target": target, "body": json.dumps(any_of_it)}),
        (BENCHES, BENCHES.c.bench, bench, {"bench": bench, "body": json.dumps(body)}),
        (SOURCES, SOURCES.c.hash, candidate_of(job), {"hash": candidate_of(job), "text": source}),
    ):
        if key and session.execute(select(column).where(column == key)).first() is None:
            session.execute(insert(table).values(**values))
    session.execute(
        insert(WORK).values(
            name=job.name,
            bench=bench,
            target=target,
            what=what_of(job),
            candidate=candidate_of(job),
            context=job.expected,
            state="waiting",
            token=0,
            deaths=0,
            expiries=0,
            put=_NOW,
        )
    )


def _blank_task(task: Mapping[str, Any]) -> dict[str, Any]:
    return {**task, "source": "", "name": "", "identity": ""}


def job_of(row: Any) -> Job:
    """Return the job of a row of work, joined with its bench's body and its candidate's text."""
    body = json.loads(row.body)
    body |= {"source": row.text if row.candidate else None, "expected": row.context}
    return read_job({**body, "thorough": row.what == "confirm"})


def work_state(row: Any) -> WorkState:
    """Return where a row of work stands, joined with its answer."""
    if row.state == "failed":
        failure = Failure(kind=row.kind, reason=row.reason)
        return WorkState(state=row.state, failure=failure)
    try:
        answer = read_answer(json.loads(row.answer)) if row.state == "done" else None
    except OF_ANOTHER_VERSION:
        failure = Failure(kind="ToolchainError", reason=_UNREADABLE)
        return WorkState(state=row.state, failure=failure)
    return WorkState(state=row.state, answer=answer)


def candidate_of(job: Job) -> str:
    """Return the hash of the source that is to be judged, empty where a job asks for the preparation."""
    return "" if job.source is None else hash_source(job.source)


def what_of(job: Job) -> str:
    """Return what is asked: ``prepare``, ``judge`` or ``confirm``."""
    return job.name.partition("-")[0]
