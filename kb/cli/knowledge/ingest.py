"""`kb ingest`: documents in, looked at before or after, and out again."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kb.cli.render.output import JSON, print_json, steps
from kb.config import Home
from kb.errors import ConfigError
from kb.progress import say
from kb.units import long_text

if TYPE_CHECKING:
    from ingest.dry_run import IngestPlan
    from ingest.report import Report
    from kb.embedders import Embedder
    from kb.knowledge import Knowledge
    from kb.progress import Progress
    from kb.records.types import Passage, Scope
    from kb.store.tables import ScopeEvidence
    from kb.store.views import Shelved

SAMPLE = 16  # passages that are embedded to tell how long all will take
SHOWN = 40  # documents that get a line of their own; the rest is counted
_WIDE = 100  # letters of a passage's beginning


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        epilog="Examples: kb ingest docs/ manual.pdf 'notes/**/*.md' sources.zip; "
        "kb ingest docs/ --dry-run; kb ingest --inspect manual.pdf; kb ingest --forget old.pdf"
    )(ingest)


def ingest(
    sources: list[str] = typer.Argument(None, help="Files, folders, globs, zip and tar archives."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be made; write nothing."),
    inspect: str | None = typer.Option(
        None, metavar="DOC", help="Show what was made of a document, and why it applies where."
    ),
    forget: list[str] = typer.Option(
        [], metavar="DOC", help="Take a document out again (repeatable)."
    ),
    json: bool = JSON,
) -> None:
    """Read documents into the knowledge base; what has not changed is skipped."""
    if sum((bool(sources), inspect is not None, bool(forget))) != 1:
        raise ConfigError(
            "expected documents to read, or --inspect DOC, or --forget DOC, and one of these only: "
            "kb ingest --help has examples"
        )
    if sources and not all(sources):
        raise ConfigError("expected a path, found an empty argument: . is the folder you are in")
    home = Home.find().make()
    if inspect is not None:
        _inspect(home, inspect, again=dry_run, json=json)
    elif forget:
        _forget(home, forget, dry_run=dry_run, json=json)
    elif dry_run:
        _plan(home, sources, json=json)
    else:
        _ingest(home, sources, json=json)


def _ingest(home: Home, sources: Sequence[str], *, json: bool) -> None:
    from ingest.report import Report
    from kb.knowledge import open_knowledge

    report = Report()
    began = time.monotonic()
    with steps() as progress:
        knowledge = open_knowledge(home, progress)
        try:
            _read(home, knowledge, sources, report, progress)
        except KeyboardInterrupt:
            say(
                f"interrupted after {report.line()}: all of that is kept, the same command goes on "
                "from here"
            )
            raise
    waiting = knowledge.store.stats()["pending"]
    if json:
        seconds = round(time.monotonic() - began, 3)
        print_json({**report.as_dict(), "pending": waiting, "seconds": seconds})
        _complain(report)
        return
    for line in _short(report.lines()):
        (say if line.startswith("refused ") else typer.echo)(line)
    typer.echo(f"passages: {report.total().line()}")
    typer.echo(report.line())
    if waiting:
        say(f"{waiting} passages are being embedded by another kb")
    _complain(report)


def _read(
    home: Home,
    knowledge: Knowledge,
    sources: Sequence[str],
    report: Report,
    progress: Progress,
) -> None:
    from ingest.pipeline import IngestOptions
    from ingest.pipeline import ingest as run
    from ingest.scope.overrides import load_rules

    terms = IngestOptions(rules=load_rules(home))
    run(sources, knowledge.store, terms=terms, report=report, progress=progress)
    knowledge.derived.refresh(progress)


def _plan(home: Home, sources: Sequence[str], *, json: bool) -> None:
    from ingest.dry_run import plan
    from ingest.pipeline import IngestOptions
    from ingest.scope.overrides import load_rules
    from kb.knowledge import default_embedder, open_store

    store, embedder = open_store(home), default_embedder(home)
    terms = IngestOptions(rules=load_rules(home))
    with steps() as progress:
        made = plan(sources, store, embedder.name, terms=terms, progress=progress)
        seconds = _estimate(embedder, made, progress)
    if json:
        print_json({**made.as_dict(), "embedding_seconds": round(seconds, 3)})
        _complain(made)
        return
    for line in _short(_plan_lines(made)):
        (say if line.startswith("refused ") else typer.echo)(line)
    tokens = sum(one.tokens for one in made.documents)
    passages = sum(one.passages for one in made.documents)
    typer.echo(
        f"would read {len(made.documents)} documents ({passages} passages, {tokens} tokens), skip "
        f"{made.unchanged}, remove {len(made.removed)}, refuse {len(made.refused)}"
    )
    typer.echo(f"to embed: {made.to_embed} passages, about {long_text(seconds)}")
    _complain(made)


def _complain(what: Report | IngestPlan) -> None:
    """Refuse the command, after all else is done, where a path that was named cannot be read."""
    if what.unread:
        first = what.unread[0]
        reason = dict(what.refused)[first]
        more = f" (and {len(what.unread) - 1} more of those named)" if what.unread[1:] else ""
        raise ConfigError(f"{first}: {reason}{more}; the others were read")


def _plan_lines(made: IngestPlan) -> list[str]:
    lines = []
    for one in made.documents:
        flagged = f", {one.flagged} flagged" if one.flagged else ""
        lines.append(f"{one.shown}: {one.change.line()}, {one.tokens} tokens{flagged}")
    lines += [f"{name}: removed, its file is gone" for name in made.removed]
    return [*lines, *(f"refused {name}: {reason}" for name, reason in made.refused)]


def _estimate(embedder: Embedder, made: IngestPlan, progress: Progress) -> float:
    """Return the seconds that embedding will take, from some of the passages themselves."""
    if not made.texts:
        return 0.0
    sample = made.texts[:: max(1, len(made.texts) // SAMPLE)][:SAMPLE]
    progress("timing the encoder")
    embedder.embed(sample[:1])  # loads it
    began = time.monotonic()
    embedder.embed(sample)
    return (time.monotonic() - began) / len(sample) * made.to_embed


def _forget(home: Home, names: Sequence[str], *, dry_run: bool, json: bool) -> None:
    from kb.knowledge import open_knowledge, open_store

    store = open_store(home)
    keys = sorted({key for name in names for key in _keys(store.keys(name), name)})
    for key in keys:
        if key.startswith(("kb:", "lessons:")):
            raise ConfigError(
                f"{key}: expected a document that was ingested, found one that kb keeps itself: it "
                "would be back with the next command"
            )
    if not dry_run:
        store.remove(keys)
        with steps() as progress:
            open_knowledge(home, progress)
    if json:
        print_json({"forgotten": keys, "dry_run": dry_run})
        return
    for key in keys:
        typer.echo(f"{'would forget' if dry_run else 'forgotten'}: {key}")


def _keys(found: Sequence[str], name: str) -> Sequence[str]:
    if not found:
        raise ConfigError(
            f"{name}: expected a document of the knowledge base, found none of that name: kb ingest "
            "--inspect '*' --json lists them"
        )
    return found


def _inspect(home: Home, name: str, *, again: bool, json: bool) -> None:
    from kb.knowledge import open_store

    store = open_store(home)
    keys = [] if again else store.keys(name)
    path = Path(os.path.expanduser(name))
    if not keys and os.path.isfile(path):
        known = _reread(home, path)
    else:
        keys = list(_keys(keys, name))
        if len(keys) > 1:
            _list(keys, json=json)
            return
        found = store.shelved(keys[0])
        assert found is not None
        known = found
    if json:
        print_json(known.as_dict())
        return
    for line in _inspected(known):
        typer.echo(line)
    typer.echo(f"wrong? {home.root / 'scopes.yaml'} corrects it (docs/ingest.md, Scope)")


def _reread(home: Home, path: Path) -> Shelved:
    """Return what would be made of a file now."""
    from ingest.entry import make_entry
    from ingest.isolation.pool import Confined
    from ingest.scope.overrides import load_rules
    from ingest.sources.files import find
    from kb.errors import RecordError
    from kb.store.views import as_shelved

    (found,) = find([path])
    with Confined() as desk:
        try:
            entry = make_entry(found, found.identity, "", load_rules(home), desk)
        except RecordError as error:
            raise ConfigError(f"{found.shown}: {error}") from error
    assert entry is not None
    return as_shelved(entry)


def _list(keys: Sequence[str], *, json: bool) -> None:
    if json:
        print_json(keys)
        return
    for key in keys:
        typer.echo(key)


def _inspected(one: Shelved) -> list[str]:
    tokens = sum(passage.tokens for passage, _ in one.passages)
    lines = [
        f"{one.shown}: {one.kind}, {one.title!r}, {len(one.passages)} passages, {tokens} tokens",
        f"applies to {_scope_text(one.scope)}",
        *(f"  {reason}" for reason in one.found.reasons),
    ]
    if one.scope != one.found.scope:
        lines.append(f"  corrected by scopes.yaml; found was {_scope_text(one.found.scope)}")
    for number, (passage, own) in enumerate(one.passages, start=1):
        lines += _passage(number, passage, own, one)
    return lines


def _passage(number: int, passage: Passage, own: ScopeEvidence | None, one: Shelved) -> list[str]:
    place = "" if passage.pages is None else f"  {_pages(passage.pages)}"
    flags = "".join(f"  [{flag}]" for flag in passage.flags)
    lines = [f"{number:>4}. {passage.section}{place}  {passage.tokens} tokens{flags}"]
    if passage.scope != one.scope:
        lines.append(f"      applies to {_scope_text(passage.scope)}")
    if own is not None:
        lines += [f"        {reason}" for reason in own.reasons]
    found = (own or one.found).scope
    if passage.scope not in (found, one.scope):
        lines.append("        corrected by scopes.yaml")
    start = " ".join(passage.text.split())
    lines.append(f"      {start[:_WIDE]}{'…' if len(start) > _WIDE else ''}")
    return [
        *lines,
        *(f"      asked: {said}" for said in one.asked.get(passage.id, "").splitlines()),
    ]


def _pages(pages: tuple[int, int]) -> str:
    first, last = pages
    return f"page {first}" if first == last else f"pages {first} to {last}"


def _scope_text(scope: Scope) -> str:
    from kb.store.views import plain_scope

    fields: dict[str, Any] = plain_scope(scope)
    return "; ".join(f"{name} {', '.join(values)}" for name, values in fields.items()) or "all"


def _short(lines: Sequence[str]) -> list[str]:
    """Return at most `SHOWN` lines of documents, and all refusals."""
    told = [line for line in lines if not line.startswith("refused ")]
    refused = [line for line in lines if line.startswith("refused ")]
    more = [f"… and {len(told) - SHOWN} more documents"] if len(told) > SHOWN else []
    return [*told[:SHOWN], *more, *refused]
