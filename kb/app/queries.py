"""From the options of `kb search` to a query."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from kb.config import Home, shipped_docs
from kb.errors import ConfigError
from kb.progress import Progress
from kb.records.types import KINDS, MODES, Effect, Query, Scope
from kb.tokens import count_tokens

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
        shipped = sorted(path.stem for path in (shipped_docs() / "languages").glob("*.md"))
        known = dict.fromkeys((*shipped, *scope.language))  # a target of one's own may have more
        scope = replace(scope, language=(_known(asked.language, tuple(known), "language"),))
    if asked.encoding is not None:
        count_tokens("", asked.encoding)  # without --tokens nothing else would look at it
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


_HALVES = {
    "dense": "meaning",
    "bm25": "words",
    "symptoms": "symptoms",
}


def reasons(hit: Hit) -> Iterator[str]:
    """Yield why a passage stands where it does, a line each."""
    why = hit.why
    details = {"dense": why.cosine, "bm25": why.bm25}
    places = []
    for name, place in why.ranks.items():
        score = details.get(name)
        shown = "" if score is None else f" ({'cosine' if name == 'dense' else 'BM25'} {score:.2f})"
        places.append(f"{_HALVES.get(name, name)} {place}{shown}")
    yield f"places: {', '.join(places)}; fused {why.fused:.4f}, score {hit.score:.4f}"
    if why.misses:
        yield f"scope: not written for the {', '.join(why.misses)} asked for"
    if why.effect is not None:
        yield from _effect(why.effect, why.factor)
    yield f"kept: {why.kept}, {hit.passage.tokens} tokens"
    yield from (f"stands for {copy}" for copy in why.copies)
    if hit.passage.flags:
        yield f"flags: {', '.join(hit.passage.flags)}"


def _effect(effect: Effect, factor: float) -> Iterator[str]:
    used = f"used {effect.used} times ({effect.fates})" if effect.used else "never used"
    gain, low, high = (math.exp(one) for one in (effect.gain, effect.low, effect.high))
    yield (
        f"effect: retrieved {effect.retrieved} times, {used}; expected gain {gain:.2f}x "
        f"({low:.2f} to {high:.2f}), newcomer's bonus {math.exp(effect.bonus):.2f}x, "
        f"confirmations {math.exp(effect.lift):.2f}x: score times {factor:.2f}"
    )
    if effect.used:
        here, family, other = effect.weights
        yield (
            f"effect rests on {here:.1f} measurements from here, {family:.1f} of the operator "
            f"family elsewhere, {other:.1f} of other families (old and shared ones count less)"
        )
