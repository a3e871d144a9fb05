"""The tables of runs: append-only nodes, sources and outcomes by content, every prompt and reply."""

from __future__ import annotations

from sqlalchemy import Column, Float, Integer, String, Table, Text

from kb.database import Base

META = Base.metadata
RUNS = Table(
    "runs",
    META,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("run", String, unique=True, nullable=False),
    Column("about", Text, nullable=False),  # JSON: everything that was known when it began
    Column("started", Float, nullable=False),
    Column("status", String, nullable=False),  # running | finished | interrupted
    Column("stop_reason", Text),  # why the search ended; the report may still be missing
    Column("report", Text),  # JSON: what `evolve --json` prints
    Column("elapsed", Float, nullable=False, default=0.0),
)
PROPOSALS = Table(
    "proposals",
    META,
    Column("run", String, primary_key=True),
    Column("slot", String, primary_key=True),
    Column("parent", Integer),
    Column("ideas", Text, nullable=False),
    Column("retrieved", Text, nullable=False),  # JSON list of documents that retrieval returned
)
NODES = Table(
    "nodes",
    META,
    Column("run", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("step", String, nullable=False),
    Column("parent", Integer),
    Column("source", String, nullable=False),
    Column("draft", Text, nullable=False),
    Column("outcome", String),  # key of the outcome, null until it is judged
    Column("elapsed", Float),  # seconds of the run by then, pauses left out
)
DEAD_ENDS = Table(
    "dead_ends",
    META,
    Column("run", String, primary_key=True),
    Column("step", String, primary_key=True),
)
SOURCES = Table(
    "sources",
    META,
    Column("hash", String, primary_key=True),
    Column("text", Text, nullable=False),
)
OUTCOMES = Table(
    "outcomes",
    META,
    Column("key", String, primary_key=True),
    Column("outcome", Text, nullable=False),
    Column("judged", Float, nullable=False),
)
EXCHANGES = Table(
    "exchanges",
    META,
    Column("key", String, primary_key=True),
    Column("request", Text, nullable=False),
    Column("reply", Text, nullable=False),
    Column("at", Float, nullable=False),
)
