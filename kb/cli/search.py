"""`kb search`: the passages that answer a question, and why they stand where they do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from kb.app.queries import explained, plain
from kb.cli.render.output import JSON, print_json, steps
from kb.config import Home
from kb.progress import say

if TYPE_CHECKING:
    from kb.records.types import Answer, Effect, Hit

_LEFT_OUT = 12  # lines about what was left out
_HALVES = {
    "dense": "meaning",
    "bm25": "words",
    "symptoms": "symptoms",
}
_EXAMPLES = (
    'Examples: kb search "shared memory bank conflicts" --target h100 --limit 3; '
    'kb search "softmax of long rows" --symptom memory-bound --explain'
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=_EXAMPLES)(search)


def search(
    question: str = typer.Argument(..., help="What you want to know."),
    target: str | None = typer.Option(None, help="A target, e.g. h100: its knowledge first."),
    language: str | None = typer.Option(None, help="A language, e.g. triton."),
    operator: list[str] = typer.Option([], help="An operator family, e.g. softmax (repeatable)."),
    symptom: list[str] = typer.Option(
        [], help="What a diagnosis says, worst first, e.g. memory-bound (repeatable)."
    ),
    kind: list[str] = typer.Option([], help="Only this kind: idea, target, guide, … (repeatable)."),
    limit: int = typer.Option(8, min=1, max=100, help="Most passages to print."),
    tokens: int | None = typer.Option(None, min=0, help="Most tokens of all passages together."),
    tokenizer: str | None = typer.Option(
        None, help="Count tokens by this encoding of tiktoken, or by this tokenizer.json."
    ),
    mode: str = typer.Option("hybrid+effect", help="bm25, dense, hybrid or hybrid+effect."),
    explain: bool = typer.Option(False, "--explain", help="Say why each passage stands there."),
    json: bool = JSON,
) -> None:
    """Find the passages that answer a question, best first."""
    from kb.app.queries import SearchOptions, ask

    asked = SearchOptions(
        question=question,
        target=target,
        language=language,
        operators=operator,
        symptoms=symptom,
        kinds=kind,
        limit=limit,
        tokens=tokens,
        encoding=tokenizer,
        mode=mode,
    )
    with steps() as progress:
        answer = ask(Home.find().make(), asked, progress)
    if json:
        print_json(explained(answer) if explain else [plain(hit) for hit in answer.hits])
        return
    for line in lines(answer, explain=explain):
        typer.echo(line)
    if not answer.hits:
        say("nothing found")


def lines(answer: Answer, *, explain: bool) -> Iterator[str]:
    """Yield an answer as people read it."""
    for place, hit in enumerate(answer.hits, start=1):
        passage = hit.passage
        note = "  [outside the scope asked for]" if hit.widened else ""
        pages = f", {_pages(passage.pages)}" if passage.pages else ""
        yield f"{place}. {passage.section}  ({passage.document}{pages}){note}"
        if explain:
            yield from (f"   | {line}" for line in reasons(hit))
        yield from (f"   {line}" for line in passage.text.strip().splitlines())
        yield ""
    if explain:
        yield from (f"note: {note}" for note in answer.notes)
        for one in answer.dropped[:_LEFT_OUT]:
            yield f"left out: {one.section}  ({one.document}): {one.reason}"
        if len(answer.dropped) > _LEFT_OUT:
            yield f"left out: {len(answer.dropped) - _LEFT_OUT} more"


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


def _pages(pages: tuple[int, int]) -> str:
    first, last = pages
    return f"page {first}" if first == last else f"pages {first} to {last}"
