"""kb check: what is wrong with a library of records, one line a finding."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kb.cli.render.output import JSON, print_json, steps
from kb.config import shipped_docs
from kb.progress import say

if TYPE_CHECKING:
    from kb.progress import Progress
    from kb.records.lint import LintFault
    from kb.records.schema import Document

FOUND = 1
EPILOG = (
    "Examples: kb check; kb check hardware_docs --write; kb check --build. Exit codes: 0 nothing is wrong; "
    "1 something is, one line each; 2 the folder holds no library."
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EPILOG)(check)


def check(
    folder: Path | None = typer.Argument(
        None, help="A library of records; the shipped one without."
    ),
    write: bool = typer.Option(False, "--write", help="Write the index and its pages first."),
    build: bool = typer.Option(
        False, "--build", help="Compile what the recipes render as well: minutes."
    ),
    recipes: bool = typer.Option(True, help="Render every recipe for a reference that it fits."),
    json: bool = JSON,
) -> None:
    """Check the library: schema, dead references, contradicting numbers, patterns, recipes."""
    from kb.errors import RecordError
    from kb.records.library import examine_library, load_library, write_index
    from kb.records.pages import INDEX

    root = folder or shipped_docs()
    if not root.is_dir():
        raise RecordError(f"expected a folder of records, found none at {root}: check the path")
    if write:
        write_index(root)
    shipped = root.resolve() == shipped_docs().resolve()
    # Records of one's own speak of shipped targets and ideas, and need no index.
    beside = () if shipped else load_library(shipped_docs())
    faults, documents = examine_library(root, beside, pages=shipped or (root / INDEX).is_file())
    if not documents and not faults:
        raise RecordError(f"expected Markdown records below {root}, found none: check the path")
    from kb.app.doctor.patterns import pattern_faults

    faults += pattern_faults(root, (*documents, *beside))
    with steps() as progress:
        if recipes or build:
            faults += _recipes(documents, build, progress)
    if json:
        print_json(
            {"folder": str(root), "records": len(documents), "faults": list(map(asdict, faults))}
        )
    else:
        for fault in faults:
            typer.echo(fault.line())
        say(f"{len(documents)} records, {len(faults)} findings")
    raise typer.Exit(FOUND if faults else 0)


def _recipes(documents: tuple[Document, ...], build: bool, progress: Progress) -> list[LintFault]:
    from kb.records.lint import LintFault
    from kb.records.schema import IdeaRecord

    if not any(isinstance(d.record, IdeaRecord) and d.record.recipe for d in documents):
        return []
    from search.codegen.selftest import Samples, render_recipes

    with tempfile.TemporaryDirectory() as scratch:
        samples = Samples(Path(scratch))
        progress("rendering recipes")
        rendered = list(render_recipes(documents, samples))
        faults = [
            LintFault(kind="recipe", path=one.path, message=one.trouble)
            for one in rendered
            if one.trouble
        ]
        if build:
            from kb.app.doctor.template_builds import build_faults

            sound = [one for one in rendered if not one.trouble]
            faults += build_faults(sound, samples, Path(scratch), progress)
    return faults
