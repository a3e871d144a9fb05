"""A folder of records as a whole: loading it, checking that it agrees with itself, its pages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kb.config import shipped_docs
from kb.errors import RecordError
from kb.records.lint import LintFault, record_faults
from kb.records.lint_figures import figure_faults
from kb.records.pages import INDEX, MODULES, stale_pages, write_pages
from kb.records.schema import Document, parse_record


def load_library(root: Path) -> tuple[Document, ...]:
    """Read every record below `root`, sorted by path; `Document.path` is relative to `root`.

    Raises:
        RecordError: a file is not a record, or there is none.
    """
    documents = tuple(_read(root, path) for path in _paths(root))
    if not documents:
        raise RecordError(f"expected Markdown records below {root}, found none: check the path")
    return documents


def examine_library(
    root: Path, beside: Sequence[Document] = (), *, pages: bool = True
) -> tuple[list[LintFault], tuple[Document, ...]]:
    """Return what is wrong with the records below `root`, and those that could be read.

    Args:
        beside: records of another library that these may refer to.
        pages: compare the generated pages too, where the records are sound.
    """
    documents: list[Document] = []
    faults: list[LintFault] = []
    for path in _paths(root):
        try:
            documents.append(_read(root, path))
        except RecordError as error:
            name = path.relative_to(root).as_posix()
            message = str(error).removeprefix(f"{name}: ")
            faults.append(LintFault(kind="schema", path=name, message=message))
    faults += record_faults(documents, beside)
    faults += figure_faults(documents)
    if pages and documents and not faults:
        for page, state in stale_pages(root, documents):
            message = f"{page} {state}: run kb check --write {root}"
            faults.append(LintFault(kind="index", path="", message=message))
    return faults, tuple(documents)


def check_library(root: Path) -> list[str]:
    """Return what is wrong with the records below `root`, one line a fault."""
    return [fault.line() for fault in examine_library(root)[0]]


def write_index(root: Path) -> Path:
    """Write the index and the modules' pages of the records below `root`; return the index's path.

    Raises:
        RecordError: a file is not a record, or a page cannot be written.
    """
    path = root / INDEX
    try:
        write_pages(root, load_library(root))
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _paths(root: Path) -> list[Path]:
    made = (root / INDEX, root / MODULES)
    return sorted(p for p in root.rglob("*.md") if p not in made and p.parent not in made)


def _read(root: Path, path: Path) -> Document:
    relative = path.relative_to(root).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{relative}: not text (invalid UTF-8 at byte {error.start})") from error
    except OSError as error:
        raise RecordError(f"{relative}: cannot be read: {error.strerror}") from error
    return parse_record(text, relative)


def main(arguments: Sequence[str]) -> int:
    """Check a library, or write its pages first: ``python -m kb.records.library [--write] [FOLDER]``."""
    folders = [argument for argument in arguments if argument != "--write"]
    root = Path(folders[0]) if folders else shipped_docs()
    try:
        if "--write" in arguments:
            write_index(root)
        problems = check_library(root)
    except RecordError as error:
        problems = [str(error)]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
