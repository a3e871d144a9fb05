"""The generated pages of a library: from the index to a module's page to a record, in two steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kb.records.schema import (
    CATEGORIES,
    OPERATOR_FAMILIES,
    SYMPTOMS,
    Document,
    IdeaRecord,
    TargetRecord,
)

INDEX = "index.md"
MODULES = "modules"
_MADE = "Made from the records by `kb check --write`: edit those."
_KINDS = {
    "language": ("languages", "Languages", "how an answer is written, its pitfalls"),
    "constraint": ("constraints", "Constraints", "what an answer must keep to"),
    "guide": ("guidance", "Guidance", "profiling, debugging, numerics, tuning"),
    "kernel": ("kernels", "Kernels", "whole programs with their measurements"),
    "lesson": ("lessons", "Lessons", "what finished runs taught"),
}
_VENDORS = {
    "amd": "AMD",
    "apple": "Apple",
    "arm": "Arm",
    "google": "Google",
    "intel": "Intel",
    "meta": "Meta",
    "nvidia": "NVIDIA",
    "x86": "Any x86",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One page of the library.

    Attributes:
        heading: the group of the index that it stands in.
        purpose: what a reader finds there, in some words.
    """

    name: str
    heading: str
    title: str
    purpose: str
    members: tuple[Document, ...]
    sections: tuple[tuple[str, tuple[Document, ...]], ...] = ()

    @property
    def path(self) -> str:
        """Where it lies below the root."""
        return f"{MODULES}/{self.name}.md"


def make_modules(documents: Iterable[Document]) -> tuple[Module, ...]:
    """Return the modules of a library in the index's order; one without members is left out."""
    ordered = sorted(documents, key=lambda document: document.path)
    found = [
        *_targets(ordered),
        *_kinds(ordered),
        *_categories(ordered),
        *_operators(ordered),
        _symptoms(ordered),
    ]
    return tuple(module for module in found if module.members)


def render_pages(documents: Iterable[Document]) -> dict[str, str]:
    """Return the text of every generated page by its path below the root."""
    modules = make_modules(documents)
    return {
        INDEX: render_index(modules),
        **{module.path: _page(module) for module in modules},
    }


def render_index(modules: Sequence[Module]) -> str:
    """Return the index: one line a module."""
    lines = ["# What is known", "", f"Choose a page, then a record. {_MADE}"]
    heading = ""
    for module in modules:
        if module.heading != heading:
            heading = module.heading
            lines += ["", f"## {heading}", ""]
        count = f"{len(module.members)} record{'s' * (len(module.members) != 1)}"
        lines.append(f"- [{module.title}]({module.path}) ({count}): {module.purpose}")
    return "\n".join(lines) + "\n"


def stale_pages(root: Path, documents: Iterable[Document]) -> Iterator[tuple[str, str]]:
    """Yield the path of each generated page that is not as it would be written, and its state."""
    pages = render_pages(documents)
    for path, text in pages.items():
        place = root / path
        found = place.read_text(encoding="utf-8") if place.is_file() else None
        if found != text:
            yield path, "is missing" if found is None else "is out of date"
    for place in sorted((root / MODULES).glob("*.md")):
        path = place.relative_to(root).as_posix()
        if path not in pages:
            yield path, "is a page of no module"


def write_pages(root: Path, documents: Iterable[Document]) -> None:
    """Write every page, and remove those of modules that are no more."""
    pages = render_pages(documents)
    (root / MODULES).mkdir(exist_ok=True)
    for path, text in pages.items():
        (root / path).write_text(text, encoding="utf-8")
    for place in (root / MODULES).glob("*.md"):
        if place.relative_to(root).as_posix() not in pages:
            place.unlink()


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _targets(documents: Sequence[Document]) -> Iterator[Module]:
    targets = [d for d in documents if isinstance(d.record, TargetRecord)]
    for vendor in sorted({d.record.vendor for d in targets if isinstance(d.record, TargetRecord)}):
        members = [d for d in targets if getattr(d.record, "vendor", None) == vendor]
        title = _VENDORS.get(vendor, vendor)
        yield Module(
            name=f"targets-{_slug(vendor)}",
            heading="Targets",
            title=title,
            purpose=", ".join(d.name for d in members),
            members=tuple(members),
        )


def _kinds(documents: Sequence[Document]) -> Iterator[Module]:
    for kind, (name, title, purpose) in _KINDS.items():
        members = tuple(d for d in documents if d.record.kind == kind)
        heading = "How to write, judge and measure" if kind != "lesson" else "Experience"
        heading = "Experience" if kind == "kernel" else heading
        yield Module(name=name, heading=heading, title=title, purpose=purpose, members=members)


def _categories(documents: Sequence[Document]) -> Iterator[Module]:
    for category in CATEGORIES:
        members = tuple(
            document
            for document in documents
            if isinstance(document.record, IdeaRecord) and document.record.category == category
        )
        families = sorted({f for d in members for f in d.record.scope.operator})
        yield Module(
            name=f"ideas-{_slug(category)}",
            heading="Ideas by category",
            title=category.capitalize(),
            purpose=f"for {', '.join(families)}" if families else "for any operator",
            members=members,
            sections=_by_worth(members),
        )


def _operators(documents: Sequence[Document]) -> Iterator[Module]:
    for family in OPERATOR_FAMILIES:
        members = tuple(
            d
            for d in documents
            if d.record.kind in ("idea", "guide", "kernel", "lesson")
            and family in d.record.scope.operator
        )
        yield Module(
            name=f"operator-{_slug(family)}",
            heading="Everything about an operator",
            title=family.capitalize(),
            purpose="ideas, guidance and kernels",
            members=members,
            sections=(
                *_by_worth(tuple(d for d in members if d.record.kind == "idea")),
                ("Guidance", tuple(d for d in members if d.record.kind == "guide")),
                ("Kernels", tuple(d for d in members if d.record.kind == "kernel")),
                ("Lessons", tuple(d for d in members if d.record.kind == "lesson")),
            ),
        )


def _symptoms(documents: Sequence[Document]) -> Module:
    sections = tuple(
        (symptom, tuple(d for d in documents if symptom in getattr(d.record, "symptoms", ())))
        for symptom in SYMPTOMS
    )
    members = {d.path: d for _, found in sections for d in found}
    return Module(
        name="symptoms",
        heading="What answers a symptom",
        title="Symptoms",
        purpose="by what a diagnosis names: memory-bound, bank-conflicts, tail-effect, …",
        members=tuple(members[path] for path in sorted(members)),
        sections=sections,
    )


def _by_worth(ideas: Sequence[Document]) -> tuple[tuple[str, tuple[Document, ...]], ...]:
    return (
        ("What helps", tuple(d for d in ideas if not getattr(d.record, "anti", False))),
        ("What usually loses", tuple(d for d in ideas if getattr(d.record, "anti", False))),
    )


def _page(module: Module) -> str:
    lines = [f"# {module.heading}: {module.title}", "", f"[Index](../{INDEX}). {_MADE}"]
    if not module.sections:
        lines += ["", *(_line(document) for document in module.members)]
    for heading, members in module.sections:
        if members:
            lines += ["", f"## {heading}", "", *(_line(document) for document in members)]
    return "\n".join(lines) + "\n"


def _line(document: Document) -> str:
    return f"- [{document.name}](../{document.path}): {describe(document)}"


def describe(document: Document) -> str:
    """Return a record in one line: its title, where it applies, and what it answers."""
    record = document.record
    scope = record.scope.value()
    parts = [record.title]
    fields = (scope.vendor, scope.architecture, scope.language, scope.operator, scope.dtype)
    where = ", ".join(value for field in fields for value in field)
    if where:
        parts.append(f" ({where})")
    if isinstance(record, IdeaRecord) and record.anti:
        parts.append(" **usually loses**")
    if isinstance(record, IdeaRecord) and record.symptoms:
        parts.append(f"; answers {', '.join(record.symptoms)}")
    return "".join(parts)
