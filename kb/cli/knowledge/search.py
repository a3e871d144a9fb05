"""`kb search`: the passages that answer a question, and why they stand where they do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from kb.app.queries import explained, plain, reasons
from kb.cli.render.output import JSON, print_json, steps
from kb.config import Home
from kb.progress import say

if TYPE_CHECKING:
    from kb.records.types import Answer

_LEFT_OUT = 12  # lines about what was left out
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


def _pages(pages: tuple[int, int]) -> str:
    first, last = pages
    return f"page {first}" if first == last else f"pages {first} to {last}"
