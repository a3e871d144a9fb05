"""From the options of `kb search` to a query."""

from __future__ import annotations

from dataclasses import replace

from kb.config import Home, shipped_docs
from kb.errors import ConfigError
from kb.progress import Progress
from kb.records import TargetRecord
from kb.types import KINDS, Hit, Kind, Query, Scope


def ask(
    home: Home,
    question: str,
    target: str | None,
    language: str | None,
    kinds: tuple[str, ...],
    limit: int,
    progress: Progress,
) -> list[Hit]:
    """Open the knowledge base and search it."""
    from kb.knowledge import open_knowledge

    if not question.strip():
        raise ConfigError('the question is empty: expected words, e.g. kb search "bank conflicts"')
    wanted = tuple(_kind(kind) for kind in kinds)
    scope = Scope()
    if target is not None:
        record = find_target(target)
        scope = Scope(
            vendor=(record.vendor,),
            architecture=(record.architecture,),
            language=tuple(record.languages),
        )
    if language is not None:
        scope = replace(scope, language=(language,))
    knowledge = open_knowledge(home, progress)
    query = Query(text=question, scope=scope, kinds=wanted, limit=limit)
    return knowledge.retriever.search(query)


def _kind(name: str) -> Kind:
    for kind in KINDS:
        if kind == name:
            return kind
    raise ConfigError(f"unknown kind {name!r}: known are {', '.join(KINDS)}")


def find_target(name: str) -> TargetRecord:
    """Return the shipped target called `name`."""
    from kb.library import load_library
    from search.targets.cpu import resolve

    record = resolve(name, list(load_library(shipped_docs() / "targets"))).record
    assert isinstance(record, TargetRecord)
    return record
