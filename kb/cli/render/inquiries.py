"""What a prompt asked of the knowledge base, in words that its reader can act on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kb.retrieval.multi_query import DEFAULT

if TYPE_CHECKING:
    from kb.records.types import Hit
    from search.prompting.rendered import RenderedPrompt

_NEAR = 6  # documents that are named though they were not given


def explain_inquiry(brief: RenderedPrompt) -> Iterator[str]:
    """Yield the patterns, the questions, the limits, and why each document is there."""
    yield from _patterns(brief)
    yield from _questions(brief)
    inquiry = brief.inquiry
    kinds = ", ".join(f"{kind} x{weight:g}" for kind, weight in inquiry.kinds)
    scope = inquiry.scope
    library = [f"library {one}" for one in scope.library]
    where = ", ".join((*scope.vendor, *scope.architecture, *scope.language, *scope.dtype, *library))
    yield "Limits"
    yield f"  in scope: {where}; operators: {', '.join(inquiry.families) or 'any'}"
    yield (
        f"  at most {inquiry.limit} documents and {inquiry.tokens} tokens; lessons at most "
        f"{int(DEFAULT.lessons * inquiry.limit)}; kinds: {kinds}"
    )
    yield "  scores: 1 for what is surely central, 0 for what is surely of no use"
    yield (
        f"  no document that is expected to add less than {DEFAULT.useless:g} times as much to the share of "
        "central documents as to that of useless ones"
    )
    if inquiry.tried:
        yield f"  tried already, so put behind: {', '.join(inquiry.tried)}"
    yield "Given"
    for place, hit in enumerate(brief.hits, start=1):
        yield from _given(place, hit)
    for left in brief.answer.dropped:
        yield f"  left out: {left.document}: {left.reason}"
    near = brief.answer.near[:_NEAR]
    if near:
        yield f"Near, below the limit: {', '.join(near)}"
    yield "To change this: a pattern in KB_HOME/patterns/*.yaml (kb check reads it), `asked:` in a record, or"
    yield "a document (kb ingest). docs/patterns.md has the format."


def _patterns(brief: RenderedPrompt) -> Iterator[str]:
    yield "Patterns"
    if not brief.patterns:
        yield "  none: the module's own words are asked about alone"
    for one in brief.patterns:
        share = f", {one.share:.0%} of the cost" if one.pattern.area == "computation" else ""
        yield f"  {one.pattern.name} ({one.pattern.area}{share}): {one.shown}"


def _questions(brief: RenderedPrompt) -> Iterator[str]:
    yield "Questions"
    for one in brief.inquiry.questions:
        named = f" [names {len(one.see)} records]" if one.see else ""
        yield f"  {one.weight:.2f}  {one.text}{named}"


def _given(place: int, hit: Hit) -> Iterator[str]:
    passage, why = hit.passage, hit.why
    moved = f", times {why.factor:.2f} by what it gained" if why.factor != 1 else ""
    yield f"  P{place} {passage.document} ({passage.tokens} tokens, score {hit.score:.2f}{moved})"
    for reason in why.trail[:3]:
        yield f"      for: {reason}"
    if why.kept:
        yield f"      {why.kept}"
