"""A folder of records as a whole: loading it, checking that it agrees with itself, its index."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kb.config import shipped_docs
from kb.errors import RecordError
from kb.records import (
    CATEGORIES,
    Document,
    IdeaRecord,
    LessonRecord,
    TargetRecord,
    parse_record,
    split_template,
)

INDEX = "index.md"
# Published peaks are rounded, and tensor peaks are quoted at a lower clock than the boost.
PEAK_AGREEMENT = 0.10
_HEADINGS = {
    "target": "Targets",
    "language": "Languages",
    "constraint": "Constraints",
    "guide": "Guidance",
    "kernel": "Kernels",
    "lesson": "Lessons",
}


def load_library(root: Path) -> tuple[Document, ...]:
    """Read every record below `root`, sorted by path; `Document.path` is relative to `root`.

    Raises:
        RecordError: a file is not a record, or there is none.
    """
    documents = tuple(_read(root, path) for path in _paths(root))
    if not documents:
        raise RecordError(f"expected Markdown records below {root}, found none: check the path")
    return documents


def render_index(documents: Iterable[Document]) -> str:
    """Return the table of contents: one line a record, ideas by category."""
    ordered = sorted(documents, key=lambda document: document.path)
    lines = [
        "# What is known",
        "",
        "One line a record. Made from the records by `python -m kb.library --write`: edit those.",
    ]
    for kind, heading in _HEADINGS.items():
        members = [document for document in ordered if document.record.kind == kind]
        if members:
            lines += ["", f"## {heading}", "", *(_line(document) for document in members)]
    for category in CATEGORIES:
        ideas = [
            document
            for document in ordered
            if isinstance(document.record, IdeaRecord) and document.record.category == category
        ]
        if ideas:
            lines += ["", f"## Ideas: {category}", "", *(_line(document) for document in ideas)]
    return "\n".join(lines) + "\n"


def check_library(root: Path) -> list[str]:
    """Return what is wrong with the records below `root`, one line a fault."""
    documents: list[Document] = []
    problems: list[str] = []
    for path in _paths(root):
        try:
            documents.append(_read(root, path))
        except RecordError as error:
            problems.append(str(error))
    problems += _duplicates(documents)
    problems += _dead_references(documents)
    problems += _dead_scopes(documents)
    problems += _broken_templates(documents)
    for document in documents:
        if not document.body.strip():
            problems.append(f"{document.path}: the body is empty: such a record is never found")
        if isinstance(document.record, TargetRecord):
            problems += _target(document.path, document.record)
    if not problems:
        problems += _stale_index(root, documents)
    return problems


def write_index(root: Path) -> Path:
    """Write the index of the records below `root` and return its path.

    Raises:
        RecordError: a file is not a record, or the index cannot be written.
    """
    path = root / INDEX
    try:
        path.write_text(render_index(load_library(root)), encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _paths(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.md") if path != root / INDEX)


def _read(root: Path, path: Path) -> Document:
    relative = path.relative_to(root).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{relative}: not text (invalid UTF-8 at byte {error.start})") from error
    except OSError as error:
        raise RecordError(f"{relative}: cannot be read: {error.strerror}") from error
    return parse_record(text, relative)


def _line(document: Document) -> str:
    record = document.record
    scope = record.scope.value()
    parts = [f"- [{document.name}]({document.path}): {record.title}"]
    fields = (scope.vendor, scope.architecture, scope.language, scope.operator, scope.dtype)
    where = ", ".join(value for field in fields for value in field)
    if where:
        parts.append(f" ({where})")
    if isinstance(record, IdeaRecord):
        if record.anti:
            parts.append(" **usually loses**")
        if record.symptoms:
            parts.append(f"; answers {', '.join(record.symptoms)}")
    return "".join(parts)


def _duplicates(documents: Sequence[Document]) -> Iterator[str]:
    first: dict[tuple[str, str], str] = {}
    for document in documents:
        names = {document.name}
        if isinstance(document.record, TargetRecord):
            names = {document.record.name, *document.record.aliases}
        for name in sorted(names):
            known = first.setdefault((document.record.kind, name), document.path)
            if known != document.path:
                taken = f"{document.record.kind} {name!r} is already in {known}"
                yield f"{document.path}: {taken}: rename one"


def _dead_references(documents: Sequence[Document]) -> Iterator[str]:
    ideas = {d.name for d in documents if isinstance(d.record, IdeaRecord)}
    for document in documents:
        name: str | None = None
        if isinstance(document.record, IdeaRecord) and document.record.recipe is not None:
            name = document.record.recipe.refines
        elif isinstance(document.record, LessonRecord):
            name = document.record.idea
        if name is not None and name not in ideas:
            yield f"{document.path}: refers to idea {name!r}, which does not exist"


def _dead_scopes(documents: Sequence[Document]) -> Iterator[str]:
    # A misspelt vendor or language would hide a record from every query, silently.
    targets = [d.record for d in documents if isinstance(d.record, TargetRecord)]
    known = {
        "vendor": {target.vendor for target in targets},
        "architecture": {target.architecture for target in targets},
        "language": {name for target in targets for name in target.languages},
    }
    for document in documents:
        for field, names in known.items():
            for name in getattr(document.record.scope, field):
                if name not in names:
                    listed = ", ".join(sorted(names)) or "none"
                    dead = f"scope.{field} {name!r} belongs to no target"
                    yield f"{document.path}: {dead}: known are {listed}"


def _broken_templates(documents: Sequence[Document]) -> Iterator[str]:
    """Templates that cannot be read, or that read a knob which neither they nor a refinement have."""
    from jinja2 import Environment, TemplateSyntaxError, nodes  # only the checker needs it here

    environment = Environment(autoescape=False)  # noqa: S701 - parsed, never rendered
    knobs: dict[str, set[str]] = {}
    for document in documents:
        if isinstance(document.record, IdeaRecord) and document.record.recipe is not None:
            recipe = document.record.recipe
            own = {*recipe.knobs, *recipe.set}
            knobs.setdefault(recipe.refines or document.name, set()).update(own)
    for document in documents:
        template = split_template(document.body)[1]
        if template is None or document.name not in knobs:
            continue
        try:
            tree = environment.parse(template)
        except TemplateSyntaxError as error:
            yield f"{document.path}: line {error.lineno} of the template: {error.message}"
            continue
        used = {
            node.attr
            for node in tree.find_all(nodes.Getattr)
            if isinstance(node.node, nodes.Name) and node.node.name == "k"
        }
        for name in sorted(used - knobs[document.name]):
            yield f"{document.path}: the template reads k.{name}, which is no knob: declare it"


def _target(path: str, record: TargetRecord) -> Iterator[str]:
    if not record.sources:
        yield f"{path}: sources is empty: say where the figures come from"
    for dtype, per_cycle in record.flops_per_cycle.items():
        if dtype not in record.peak:
            yield f"{path}: flops_per_cycle has {dtype}, peak has not: give both"
            continue
        computed, stated = record.units * record.clock * per_cycle, record.peak[dtype]
        if abs(computed - stated) > PEAK_AGREEMENT * stated:
            yield (
                f"{path}: peak {dtype} is {stated:.4g} but units x clock x flops_per_cycle is"
                f" {computed:.4g}: more than {PEAK_AGREEMENT:.0%} apart"
            )


def _stale_index(root: Path, documents: Sequence[Document]) -> Iterator[str]:
    path = root / INDEX
    found = path.read_text(encoding="utf-8") if path.is_file() else None
    if found != render_index(documents):
        state = "is missing" if found is None else "is out of date"
        yield f"{INDEX} {state}: run python -m kb.library --write {root}"


def main(arguments: Sequence[str]) -> int:
    """Check a library, or write its index first: ``python -m kb.library [--write] [FOLDER]``."""
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
