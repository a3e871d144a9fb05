"""Prompts as values, the origin of their parts as text, and what differs between two of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.app.prompt_preview import PreparedPrompt
    from kb.records.types import Hit


def prompt_values(told: PreparedPrompt) -> dict[str, Any]:
    """Return a prompt and the origin of its parts as plain values."""
    prompt = told.brief.prompt
    quoted = {hit.passage.id: hit for hit in told.brief.hits}
    labels = {one: f"P{number}" for number, one in enumerate(prompt.passages, start=1)}
    return {
        **{name: getattr(told, name) for name in ("task", "run", "node", "purpose", "memory")},
        **{name: getattr(told, name) for name in ("model", "budget", "encoding", "asked")},
        "tokens": prompt.tokens,
        "diagnosis": asdict(told.diagnosis),
        "inquiry": asdict(told.brief.inquiry),
        "patterns": [
            {
                "name": one.pattern.name,
                "area": one.pattern.area,
                "shown": one.shown,
                "share": one.share,
            }
            for one in told.brief.patterns
        ],
        "sections": [
            {
                "name": part.name,
                "tokens": part.tokens,
                "template": part.template,
                "items": list(part.items),
                "passages": [_passage(quoted[one], labels[one]) for one in part.passages],
            }
            for part in prompt.sections
        ],
        "cut": [asdict(cut) for cut in prompt.cut],
        "messages": [asdict(message) for message in prompt.messages],
    }


def _passage(hit: Hit, label: str) -> dict[str, Any]:
    passage = hit.passage
    return {
        "label": label,
        "id": passage.id,
        "document": passage.document,
        "section": passage.section,
        "pages": passage.pages,
        "kind": passage.kind,
        "flags": passage.flags,
        "tokens": passage.tokens,
        "score": hit.score,
        "why": asdict(hit.why),
    }


def origins(told: PreparedPrompt) -> Iterator[str]:
    """Yield where the parts of a prompt come from, a line each."""
    found = prompt_values(told)
    where = f"node {told.node} of {told.run}" if told.node is not None else "the reference"
    yield (
        f"{told.purpose} for {where}: {found['tokens']} of {told.budget} tokens ({told.encoding}); "
        f"memory: {told.memory}"
    )
    if told.asked is not None:
        same = "is what was asked" if told.asked else "differs from what was asked"
        yield f"this {same} (kb node {told.run} {told.node} shows that)"
    for section in found["sections"]:
        yield f"{section['name']:<12} {section['tokens']:>6} tokens  {section['template']}"
        if not section["passages"]:
            yield from (f"{'':<12} {'':>6}   - {name}" for name in section["items"][:12])
        for passage in section["passages"]:
            trail = [one.partition(" (")[0] for one in passage["why"]["trail"][:3]]
            trail = trail or _ranks(passage)
            yield (
                f"{'':<12} {passage['tokens']:>6}   {passage['label']} {passage['document']}: "
                f"{passage['section']} ({'; '.join(trail)})"
            )
    for cut in found["cut"]:
        of = f"{cut['kept']} of {cut['of']} tokens kept" if cut["of"] else "never counted"
        yield f"left out: {cut['section']}, {cut['item']}: {of}"


def _ranks(passage: dict[str, Any]) -> list[str]:
    return [f"{name} {place}" for name, place in passage["why"]["ranks"].items()] or ["found"]


def difference(one: PreparedPrompt, other: PreparedPrompt) -> list[str]:
    """Return what differs between two prompts, as a unified difference."""

    def lines(told: PreparedPrompt) -> list[str]:
        whole = "\n".join(message.content for message in told.brief.prompt.messages)
        return whole.splitlines()

    def name(told: PreparedPrompt) -> str:
        return f"{told.run} node {told.node} ({told.purpose})"

    return list(difflib.unified_diff(lines(one), lines(other), name(one), name(other), lineterm=""))
