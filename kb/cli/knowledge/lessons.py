"""Commands around lessons: list, show, edit, retire, restore, confirm, learn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kb.cli.render.output import JSON, Commands, console, print_json
from kb.config import Home
from kb.progress import say

if TYPE_CHECKING:
    from search.lessons.store import LessonStore, StoredLesson

WHICH = typer.Argument(..., help="A lesson's number, its name, or the beginning of it.")

lessons = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    invoke_without_command=True,
    no_args_is_help=False,
    help="What finished runs taught: list, show, edit, retire, confirm. Without a command: the list.",
    epilog="Examples: kb lessons | kb lessons --effect hurts --json | kb lessons show 3",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(lessons, name="lessons")


@lessons.callback()
def list_lessons(
    context: typer.Context,
    target: str | None = typer.Option(None, help="Only of this target, e.g. zen4."),
    family: str | None = typer.Option(None, help="Only of this operator family, e.g. softmax."),
    effect: str | None = typer.Option(None, help="Only: wins, helps, even, hurts or fails."),
    run: str | None = typer.Option(None, help="Only with evidence of this run."),
    retired: bool = typer.Option(False, "--all", help="Retired ones too."),
    json: bool = JSON,
) -> None:
    """List the lessons, with what confirms and contradicts each."""
    if context.invoked_subcommand is not None:
        return
    from kb.cli.render.lessons import Wanted, rows

    wanted = Wanted(target=target, family=family, effect=effect, run=run, retired=retired)
    found = rows(_open(), wanted, say) if Home.find().root.is_dir() else []
    if json:
        print_json(found)
        return
    if not found:
        typer.echo("no lessons: a finished `kb evolve` leaves some (--all lists retired ones too)")
        return
    from rich.table import Table

    table = Table("no", "effect", "lesson", "where", "gain", "for", "against", "trust", box=None)
    for row in found:
        state = "" if row["status"] == "active" else f"  [{row['status']}]"
        table.add_row(
            str(row["number"] or "-"),
            row["effect"],
            row["title"] + state,
            row["where"],
            f"{row['gain']:.2f}x",
            str(row["confirmed"]),
            str(row["contradicted"]),
            f"{row['trust']:.0%}",
        )
    console().print(table)


@lessons.command(epilog="Example: kb lessons show 3")
def show(which: str = WHICH, json: bool = JSON) -> None:
    """Show one lesson: what it says, its evidence, and whether the evidence is there."""
    from kb.cli.render.lessons import text_of, values_of

    book = _open()
    entry = book.find(which)
    if json:
        print_json(values_of(entry, book.proof))
    else:
        typer.echo(text_of(entry, book.proof))


@lessons.command(epilog='Examples: kb lessons edit 3 | kb lessons edit 3 --text "Unroll by four."')
def edit(
    which: str = WHICH,
    text: str | None = typer.Option(None, help="The words; without it $EDITOR opens them."),
) -> None:
    """Change the words of a lesson; its evidence stays as it was measured."""
    book = _open()
    entry = book.find(which)
    words = text if text is not None else _ask_editor(entry.words)
    if words is None or words.strip() == entry.words.strip():
        typer.echo(f"{entry.name} is unchanged")
        return
    _told(book.edit(entry.name, words), "edited")


@lessons.command(epilog='Example: kb lessons retire 3 --because "measured beside a build"')
def retire(
    which: str = WHICH,
    because: str = typer.Option(..., help="Why it is wrong or of no use."),
) -> None:
    """Take a lesson out of use; its evidence is kept, and only `restore` brings it back."""
    from kb.app.lessons.learning import today

    _told(_open().retire(which, because, today()), "retired")


@lessons.command(epilog="Example: kb lessons restore 3")
def restore(which: str = WHICH) -> None:
    """Bring a retired lesson back into use."""
    _told(_open().restore(which), "restored")


@lessons.command(epilog="Example: kb lessons confirm 3 --run softmax-2 --node 4")
def confirm(
    which: str = WHICH,
    run: str = typer.Option(..., help="The run that measured it."),
    node: int = typer.Option(..., min=0, help="The node that was measured."),
    json: bool = JSON,
) -> None:
    """Add a measurement to a lesson: whether it confirms or contradicts is for it to say."""
    from dataclasses import asdict

    from kb.app.lessons.evidence import evidence_of
    from kb.app.lessons.learning import say_changes, today
    from kb.knowledge import sync_lessons

    home = Home.find()
    book = _open()
    entry = book.find(which)
    changes = book.confirm(entry.name, evidence_of(home, run, node, entry), today())
    sync_lessons(home)
    if json:
        print_json([asdict(change) for change in changes])
        return
    typer.echo(f"{entry.name}: {', '.join(change.fate for change in changes)}")
    say_changes([change for change in changes if change.why])


@lessons.command(epilog="Example: kb lessons learn softmax-2")
def learn(
    run: str = typer.Argument(..., help="A finished run, as `kb runs` lists it."), json: bool = JSON
) -> None:
    """Distil a finished run again, as it was when it ended; what is known changes nothing."""
    from dataclasses import asdict

    from kb.app.relearning import learn_again

    changes = learn_again(Home.find(), run)
    if json:
        print_json([asdict(change) for change in changes])
        return
    for change in changes:
        typer.echo(f"{change.fate:<12} {change.lesson}{f': {change.why}' if change.why else ''}")


def _open() -> LessonStore:
    """Return the book of lessons."""
    from kb.app.lessons.learning import open_book
    from kb.database import open_engine
    from search.runs.storage import Storage

    home = Home.find()
    return open_book(home, Storage(open_engine(home)))


def _told(entry: StoredLesson, what: str) -> None:
    """Have the knowledge base read what changed, and say so."""
    from kb.knowledge import sync_lessons

    sync_lessons(Home.find())
    typer.echo(f"{what} {entry.record.number}: {entry.record.title}")


def _ask_editor(words: str) -> str | None:
    """Let the user edit `words`; None where nothing was saved.

    Raises:
        ConfigError: there is no editor, or it failed.
    """
    import shlex
    import subprocess
    import tempfile

    from kb.errors import ConfigError

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise ConfigError("expected $EDITOR, found none: set it, or give the words with --text")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lesson.md")
        path.write_text(words, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise ConfigError(
                f"$EDITOR: expected a command that opens a file, found {editor!r} ({error}): "
                "set another, or give the words with --text"
            ) from error
        found = path.read_text(encoding="utf-8", errors="replace")
    return None if found == words else found
