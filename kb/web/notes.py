"""Notes of people on nodes and lessons: a verdict and a text. The only rows that pages write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import Column, Engine, Float, Integer, String, Table, Text, delete, insert, select

from kb.database import Base, reading, writing
from kb.errors import ConfigError

# What KernelBench-Hard's annotations of solutions say, in its words.
Verdict = Literal["clean", "interesting", "leak", "hack", "bug"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LONGEST = 20_000  # characters of a note

NOTES = Table(
    "notes",
    Base.metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("run", String(120), nullable=False, default="", index=True),
    Column("node", Integer),
    Column("lesson", String(200), nullable=False, default="", index=True),
    Column("verdict", String(20), nullable=False, default=""),
    Column("text", Text, nullable=False),
    Column("quote", Text, nullable=False, default=""),  # lines of the source that it is about
    Column("at", Float, nullable=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """What somebody noted on a node of a run, or on a lesson.

    Attributes:
        run, lesson: one of them is "".
        quote: lines that the note is about.
    """

    number: int
    run: str
    node: int | None
    lesson: str
    verdict: str
    text: str
    quote: str
    at: float


def on_node(engine: Engine, run: str, node: int) -> tuple[Annotation, ...]:
    """Return the notes on a node, oldest first."""
    return _read(engine, (NOTES.c.run == run) & (NOTES.c.node == node))


def on_lesson(engine: Engine, lesson: str) -> tuple[Annotation, ...]:
    """Return the notes on a lesson, oldest first."""
    return _read(engine, NOTES.c.lesson == lesson)


def latest(engine: Engine, most: int = 500) -> tuple[Annotation, ...]:
    """Return the latest notes, the last one first."""
    with reading(engine) as session:
        rows = session.execute(select(NOTES).order_by(NOTES.c.number.desc()).limit(most))
        return tuple(Annotation(**row._mapping) for row in rows)


def add_note(engine: Engine, subject: Mapping[str, Any], said: Mapping[str, str]) -> None:
    """Keep a note.

    Args:
        subject: run and node, or lesson.
        said: verdict, text and quote.

    Raises:
        ConfigError: it says nothing, too much, or judges in a word that is not known.
    """
    verdict, text = said.get("verdict", ""), said.get("text", "").strip()
    quote = said.get("quote", "").strip("\n")
    if verdict and verdict not in VERDICTS:
        raise ConfigError(f"expected one of {', '.join(VERDICTS)}, found {verdict[:40]!r}")
    if not text and not verdict:
        raise ConfigError("expected a verdict or some words, found none")
    if len(text) + len(quote) > LONGEST:
        raise ConfigError(
            f"expected at most {LONGEST:,} characters, found {len(text) + len(quote):,}"
        )
    row = {"verdict": verdict, "text": text, "quote": quote, "at": time.time(), **subject}
    with writing(engine) as session:
        session.execute(insert(NOTES).values(**row))


def remove_note(engine: Engine, number: int) -> None:
    """Take a note back."""
    with writing(engine) as session:
        session.execute(delete(NOTES).where(NOTES.c.number == number))


def _read(engine: Engine, where: Any) -> tuple[Annotation, ...]:
    with reading(engine) as session:
        rows: Sequence[Any] = session.execute(
            select(NOTES).where(where).order_by(NOTES.c.number)
        ).all()
    return tuple(Annotation(**row._mapping) for row in rows)
