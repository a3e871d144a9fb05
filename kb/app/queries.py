"""From the options of `kb search` to a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from kb.config import Home
from kb.errors import ConfigError
from kb.progress import Progress
from kb.records.types import KINDS, MODES, Query, Scope

if TYPE_CHECKING:
    from kb.records.schema import TargetRecord
    from kb.records.types import Answer, Hit

T = TypeVar("T", bound=str)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What a user typed."""

    question: str
    target: str | None = None
    language: str | None = None
    operators: Sequence[str] = ()
    symptoms: Sequence[str] = ()
    kinds: Sequence[str] = ()
    limit: int = 8
    tokens: int | None = None
    encoding: str | None = None
    mode: str = MODES[-1]


def ask(home: Home, asked: SearchOptions, progress: Progress) -> Answer:
    """Open the knowledge base and search it.

    Raises:
        ConfigError: an option names what is not known.
    """
    query = build_query(asked)
    from kb.knowledge import open_knowledge

    return open_knowledge(home, progress).retriever.answer(query)


def build_query(asked: SearchOptions) -> Query:
    """Return the query of what a user typed.

    Raises:
        ConfigError: an option names what is not known.
    """
    if not asked.question.strip():
        raise ConfigError('the question is empty: expected words, e.g. kb search "bank conflicts"')
    scope = Scope()
    if asked.target is not None:
        record = find_target(asked.target)
        scope = Scope(
            vendor=(record.vendor,),
            architecture=(record.architecture,),
            language=tuple(record.languages),
        )
    if asked.language is not None:
        scope = replace(scope, language=(asked.language,))
    operators, symptoms = _vocabulary(asked)
    return Query(
        text=asked.question,
        scope=replace(scope, operator=operators),
        symptoms=symptoms,
        kinds=tuple(_known(one, KINDS, "kind") for one in asked.kinds),
        limit=asked.limit,
        token_budget=asked.tokens,
        encoding=asked.encoding,
        mode=_known(asked.mode, MODES, "mode"),
    )


def _vocabulary(asked: SearchOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not asked.operators and not asked.symptoms:
        return (), ()  # the schema of records costs more to import than a search
    from kb.records.schema import OPERATOR_FAMILIES, SYMPTOMS

    operators = tuple(_known(one, OPERATOR_FAMILIES, "operator") for one in asked.operators)
    return operators, tuple(_known(one, SYMPTOMS, "symptom") for one in asked.symptoms)


def _known(name: str, known: Sequence[T], what: str) -> T:
    for one in known:
        if one == name:
            return one
    raise ConfigError(f"unknown {what} {name!r}: known are {', '.join(known)}")


def find_target(name: str) -> TargetRecord:
    """Return the target called `name` as this user has it."""
    from kb.records.schema import TargetRecord
    from kb.records.targets import load_targets
    from search.targets.cpu import resolve

    record = resolve(name, load_targets(Home.find())).record
    assert isinstance(record, TargetRecord)
    return record


def explained(answer: Answer) -> dict[str, Any]:
    """Return an answer with its reasons as JSON values."""
    return {
        "hits": [{**plain(hit), "why": asdict(hit.why)} for hit in answer.hits],
        "left_out": [asdict(one) for one in answer.dropped],
        "notes": list(answer.notes),
    }


def plain(hit: Hit) -> dict[str, Any]:
    """Return a hit as JSON values."""
    passage = hit.passage
    return {
        "id": passage.id,
        "text": passage.text,
        "document": passage.document,
        "section": passage.section,
        "pages": passage.pages,
        "kind": passage.kind,
        "tokens": passage.tokens,
        "flags": list(passage.flags),
        "scope": {key: list(value) for key, value in asdict(passage.scope).items() if value},
        "score": hit.score,
        "dense_rank": hit.dense_rank,
        "lexical_rank": hit.lexical_rank,
        "widened": hit.widened,
    }
