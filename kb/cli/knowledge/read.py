"""`kb read`: a record whole, a page of the index, or what an idea gained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from kb.app.lookup import known, open_reader, scope_of
from kb.cli.render.output import JSON, print_json, steps
from kb.config import Home
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.retrieval.lookup import LookupResult

_EXAMPLES = (
    "Examples: kb read attention-by-tiles; kb read module operator-attention --target h100; "
    "kb read --history online-softmax --json"
)
_PAGE = "module"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=_EXAMPLES)(read)


def read(
    name: list[str] = typer.Argument(
        ..., help="A record (its file's stem), a document's path, or `module` and a page's name."
    ),
    history: bool = typer.Option(False, "--history", help="What it gained, where, and by whom."),
    target: str | None = typer.Option(None, help="Of a page: what applies to this target first."),
    language: str | None = typer.Option(None, help="Of a page: what applies to a language first."),
    json: bool = JSON,
) -> None:
    """Read a record whole, the beginning of a document, a page of the index, or a history."""
    paged = name[0] == _PAGE and len(name) > 1
    if len(name) > 1 + paged or (paged and history):
        raise ConfigError(
            f"expected one name, or `{_PAGE}` and the name of a page, found {' '.join(name)!r}: "
            "kb read attention-by-tiles"
        )
    with steps() as progress:
        reader = open_reader(Home.find().make(), progress)
        if paged:
            found = reader.module(name[1], scope_of(target, language))
        else:
            found = reader.history(name[0]) if history else reader.read(name[0])
    known(found)
    if json:
        print_json(found.as_dict())
        return
    for line in lines(found):
        typer.echo(line)


def lines(found: LookupResult) -> Iterator[str]:
    """Yield what was found as people read it."""
    if found.text:
        if found.kind == _PAGE:
            yield f"# {found.title}"
        yield found.text
        return
    yield from _quoted(found.passages)
    if found.more:
        yield f"[… {found.more} more passages: kb search finds what is in them]"


def _quoted(passages: Sequence[Any]) -> Iterator[str]:
    for passage in passages:
        flags = f"  [{', '.join(passage.flags)}]" if passage.flags else ""
        yield f"{passage.section}  ({passage.document}){flags}"
        yield ""
        yield passage.text.strip()
        yield ""
