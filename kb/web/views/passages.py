"""The passages that a node rests on: where they are from, why they were taken, what they gained."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kb.records.types import Effect, Hit, Passage
from kb.retrieval.effect_estimate import Where
from kb.retrieval.effect_store import Effects, subject
from kb.store.documents import Store
from kb.web.sources import Sources
from kb.web.text import address


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A passage that an idea names or a prompt quotes.

    Attributes:
        document: address of its document's page.
        named: the idea says that it rests on it; else a prompt quoted it.
        reasons: why it was taken when the run asked, a line each; none where that was not kept.
        gone: the knowledge base has it no more; the text is as the run was given it.
        effect: what its use gained in all runs, None where nothing was measured.
    """

    passage: Passage
    document: str
    named: bool
    reasons: tuple[str, ...]
    gone: bool
    effect: Effect | None


def quoted(
    sources: Sources,
    run: str,
    named: Iterable[str],
    drafted: Iterable[str],
    families: Iterable[str] = (),
) -> tuple[tuple[Quoted, ...], int]:
    """Return the passages of a node, those that its idea names first, and how many nobody knows.

    Args:
        named: identities of those that the idea names.
        drafted: of those that the prompt for the source quoted.
        families: of the task's operators: what was gained there counts most.
    """
    first = list(dict.fromkeys(named))
    every = list(dict.fromkeys([*first, *drafted]))
    hits = given_hits(sources, run, set(every))
    stored = Store(sources.reader).passages(every)
    known = {
        one: stored.get(one) or hits[one].passage for one in every if one in stored or one in hits
    }
    effects = Effects(sources.reader, time.time())
    gains = effects.of(
        [subject(one) for one in known.values()], Where(families=frozenset(families))
    )
    found = [
        Quoted(
            passage=passage,
            document=address(passage.document),
            named=one in first,
            reasons=_reasons(hits.get(one)),
            gone=one not in stored,
            effect=gains.get(subject(passage)),
        )
        for one, passage in known.items()
    ]
    return tuple(found), len(every) - len(known)


def given_hits(sources: Sources, run: str, wanted: set[str]) -> Mapping[str, Hit]:
    """Return what a run was given when it asked, by the identity of the passage."""
    from search.runs.snapshot import read_hits

    return {
        hit.passage.id: hit for hit in read_hits(sources.reader, run) if hit.passage.id in wanted
    }


def _reasons(hit: Hit | None) -> tuple[str, ...]:
    if hit is None:
        return ()
    from kb.app.queries import reasons

    # What it gained is told apart, as it is known now.
    why = replace(hit.why, effect=None)
    told = [*(f"asked for: {one}" for one in hit.why.trail), *reasons(replace(hit, why=why))]
    return tuple(told)
