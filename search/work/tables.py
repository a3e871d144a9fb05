"""The tables of judging on many machines."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, String, Table, Text

from kb.database import Base

META = Base.metadata
TARGETS = Table(
    "work_targets",
    META,
    Column("target", String, primary_key=True),  # hash of what follows
    Column("body", Text, nullable=False),  # JSON: the device that candidates are for
)
BENCHES = Table(
    "work_benches",
    META,
    Column("bench", String, primary_key=True),  # `search.judging.spool.job.Job.bench`
    Column("body", Text, nullable=False),  # JSON: a job without its candidate
)
WORK = Table(
    "work",
    META,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("name", String, unique=True, nullable=False),  # `search.judging.spool.job.Job.name`
    Column("bench", String, nullable=False),
    Column("target", String, nullable=False),
    Column("what", String, nullable=False),  # prepare | judge | confirm
    Column("candidate", String, nullable=False),  # hash of the source, empty for a preparation
    Column("context", String, nullable=False),  # of the workers that may take it, empty: any
    Column("state", String, nullable=False),  # waiting | leased | done | failed
    Column("token", Integer, nullable=False, default=0),  # how often it was leased
    Column("worker", String),
    Column("until", Float),  # end of the lease, by the database's clock
    Column("deaths", Integer, nullable=False, default=0),  # judges that ended while they judged it
    Column("expiries", Integer, nullable=False, default=0),  # leases that ran out
    Column("answered", String),  # context of the worker that did it
    Column("kind", String),  # of the failure
    Column("reason", Text),
    Column("put", Float, nullable=False),
    Index("work_waiting", "state", "target", "context", "number"),
    Index("work_warm", "state", "bench", "context", "number"),
    Index("work_until", "state", "until"),
    Index("work_worker", "worker"),
)
RESULTS = Table(
    "work_results",
    META,
    Column("candidate", String, primary_key=True),
    Column("bench", String, primary_key=True),  # task, target, seed and limits
    Column("context", String, primary_key=True),  # judge version, device model, calibration
    Column("what", String, primary_key=True),
    Column("answer", Text, nullable=False),  # JSON: `search.judging.spool.job.JobAnswer.body`
    Column("worker", String, nullable=False),
    Column("token", Integer, nullable=False),
    Column("recorded", Float, nullable=False),
)
WORKERS = Table(
    "workers",
    META,
    Column("worker", String, primary_key=True),
    Column("context", String, nullable=False),
    Column("facts", Text, nullable=False),  # JSON, for people
    Column("doing", String, nullable=False),  # name of a job, a reason not to work, or empty
    Column("seen", Float, nullable=False),  # by the database's clock
)
CALIBRATIONS = Table(
    "calibrations",
    META,
    Column("context", String, primary_key=True),
    Column("place", String, primary_key=True),  # host and device
    Column("group", Integer, nullable=False),  # places of one group may be compared
    Column("arithmetic", Float, nullable=False),  # seconds of the known kernels
    Column("memory", Float, nullable=False),
)
