"""Asks every question of a corpus by every method."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.retrieval.corpora import Corpus as Package
from benchmarks.retrieval.corpora import write_pages
from benchmarks.retrieval.measures import Marks
from benchmarks.retrieval.methods import (
    EFFECT,
    FUSION,
    METHODS,
    fuse_plainly,
    measure,
    rank,
)
from benchmarks.retrieval.questions import Corpus, Question, answerable, load_questions
from benchmarks.retrieval.rules import PROGRAM, write_rules
from benchmarks.retrieval.simulate import learn
from kb.config import Home, shipped_docs
from kb.errors import ConfigError
from kb.knowledge import Knowledge, open_knowledge
from kb.records.library import load_library
from kb.records.schema import TargetRecord
from kb.records.types import Passage, Scope
from kb.store.aliases import speaks_for

Split = Literal["all", "train", "test"]
Say = Callable[[str], None]
NO_RECORDS = "no-records"  # a folder without documents: the manuals are asked alone


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a corpus gave.

    Attributes:
        versions: of the packages that it was made from.
        rankings: method -> the first passages for each question.
        marks: method -> the marks of each question.
        absent: answers that the corpus has not, one line each.
    """

    corpus: Corpus
    split: Split
    versions: dict[str, str]
    passages: int
    questions: list[Question]
    rankings: dict[str, list[list[Passage]]]
    marks: dict[str, list[Marks]]
    absent: list[str]


def library(base: Path, split: Split, say: Say) -> Result:
    """Ask the shipped library."""
    knowledge = open_knowledge(Home(base / "library").make())
    return ask(knowledge, "library", {}, split, say)


def manuals(base: Path, packages: list[Package], split: Split, say: Say) -> Result:
    """Ask the documentation of `packages`."""
    if not packages:
        raise ConfigError(
            "expected at least one package with documentation, found none: "
            "run python -m benchmarks.retrieval.fetch"
        )
    write_pages(packages, base / "pages")
    versions = {one.source.name: one.version for one in packages}
    return ask(_alone(base, "manuals", base / "pages", say), "manuals", versions, split, say)


def records(base: Path, split: Split, say: Say) -> Result:
    """Ask the short records of another project, one for each rule of ruff."""
    version = write_rules(base / "rules")
    knowledge = _alone(base, "records", base / "rules", say)
    return ask(knowledge, "records", {PROGRAM: version}, split, say)


def _alone(base: Path, name: str, pages: Path, say: Say) -> Knowledge:
    """Return a knowledge base of `pages` alone, without the shipped library."""
    empty = base / NO_RECORDS
    empty.mkdir(parents=True, exist_ok=True)
    knowledge = open_knowledge(Home(base / name).make(), shipped=empty)
    report = knowledge.ingest([pages])
    for refused, reason in report.refused:
        say(f"refused {refused}: {reason}")
    return knowledge


def ask(
    knowledge: Knowledge, corpus: Corpus, versions: dict[str, str], split: Split, say: Say
) -> Result:
    """Ask the questions of one corpus by each method."""
    passages = all_passages(knowledge)
    questions, absent = answerable(load_questions(corpus), passages)
    for line in absent:
        say(line)
    chosen = [one for one in questions if split == "all" or one.held_out == (split == "test")]
    scopes = find_scopes(questions)
    rankings = {
        method: rank(knowledge.retriever, chosen, mode, scopes) for method, mode in METHODS.items()
    }
    rankings[FUSION] = fuse_plainly(knowledge.retriever, chosen, scopes)
    train = [one for one in questions if not one.held_out]
    rankings[EFFECT] = _with_effect(knowledge, chosen, train, scopes)
    return Result(
        corpus=corpus,
        split=split,
        versions=versions,
        passages=len(passages),
        questions=chosen,
        rankings=rankings,
        marks={method: measure(chosen, found) for method, found in rankings.items()},
        absent=absent,
    )


def _with_effect(
    knowledge: Knowledge,
    chosen: Sequence[Question],
    train: Sequence[Question],
    scopes: Mapping[str, Scope],
) -> list[list[Passage]]:
    """Rank by effects that were learnt from `train`."""
    with tempfile.TemporaryDirectory() as folder:
        retriever = learn(knowledge, train, scopes, Path(folder), seed=0)
        return rank(retriever, chosen, "hybrid+effect", scopes)


def all_passages(knowledge: Knowledge) -> list[Passage]:
    """Return every passage of the knowledge base that may be quoted."""
    index = knowledge.derived.current()
    ids = [one for one in index.ids if speaks_for(one) is None]
    return list(knowledge.store.passages(ids).values())


def find_scopes(questions: Sequence[Question]) -> dict[str, Scope]:
    """Return the scope of each question that names a target or a language."""
    targets = {
        one.record.name: one.record
        for one in load_library(shipped_docs() / "targets")
        if isinstance(one.record, TargetRecord)
    }
    scopes: dict[str, Scope] = {}
    for question in questions:
        languages: tuple[str, ...] = ()
        vendor: tuple[str, ...] = ()
        architecture: tuple[str, ...] = ()
        if question.target is not None:
            if question.target not in targets:
                raise ConfigError(f"{question.id}: the library has no target {question.target!r}")
            record = targets[question.target]
            vendor, architecture = (record.vendor,), (record.architecture,)
            languages = record.languages
        if question.language is not None:
            languages = (question.language,)
        scopes[question.id] = Scope(vendor=vendor, architecture=architecture, language=languages)
    return scopes
