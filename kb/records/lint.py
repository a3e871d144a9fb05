"""What is wrong with the records of a library one by one and as references to each other."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from kb.records.front_matter import split_template
from kb.records.schema import Document, IdeaRecord, LessonRecord, TargetRecord, asked_groups

FaultKind = Literal[
    "schema",
    "duplicate",
    "reference",
    "contradiction",
    "template",
    "example",
    "body",
    "index",
    "recipe",
    "build",
]
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s]+)\)")
_NAMED = re.compile(r"\b(?:idea|recipe|guide|record|kernel)s? `([a-z0-9]+(?:-[a-z0-9]+)+)`")
_FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFault:
    """One thing that is wrong: where, and what would do."""

    kind: FaultKind
    path: str
    message: str

    def line(self) -> str:
        """Return it as one line."""
        return f"{self.path}: {self.message}" if self.path else self.message


def record_faults(
    documents: Sequence[Document], beside: Sequence[Document] = ()
) -> Iterator[LintFault]:
    """Yield what is wrong with the records, their names, references, templates and examples.

    Args:
        beside: records of another library that these may refer to.
    """
    known = (*documents, *beside)
    yield from _duplicates(documents)
    yield from _asked_twice(documents)
    yield from _dead_names(documents, known)
    yield from _dead_links(documents)
    yield from _dead_scopes(documents, known)
    yield from _broken_templates(documents)
    yield from _broken_examples(documents)
    for document in documents:
        if not document.body.strip():
            yield LintFault(
                kind="body",
                path=document.path,
                message="the body is empty: such a record is never found",
            )
        if isinstance(document.record, TargetRecord) and not document.record.sources:
            yield LintFault(
                kind="reference",
                path=document.path,
                message="sources is empty: say where the figures come from",
            )


def _duplicates(documents: Sequence[Document]) -> Iterator[LintFault]:
    first: dict[tuple[str, str], str] = {}
    for document in documents:
        names = {document.name}
        if isinstance(document.record, TargetRecord):
            names = {document.record.name, *document.record.aliases}
        for name in sorted(names):
            known = first.setdefault((document.record.kind, name), document.path)
            if known != document.path:
                taken = f"{document.record.kind} {name!r} is already in {known}: rename one"
                yield LintFault(kind="duplicate", path=document.path, message=taken)


def _asked_twice(documents: Sequence[Document]) -> Iterator[LintFault]:
    """Words by which two records are asked for: they tell neither from the other."""
    first: dict[str, str] = {}
    for document in documents:
        groups = asked_groups(document.record.asked).values()
        for phrase in (phrase for phrases in groups for phrase in phrases):
            known = first.setdefault(" ".join(phrase.lower().split()), document.path)
            if known != document.path:
                said = f"asked {phrase!r} is asked of {known} too: say what tells them apart"
                yield LintFault(kind="duplicate", path=document.path, message=said)


def _dead_names(documents: Sequence[Document], known: Sequence[Document]) -> Iterator[LintFault]:
    """Names of records that are not there: in front matter, in evidence, and in the text."""
    ideas = {d.name for d in known if isinstance(d.record, IdeaRecord)}
    targets = {
        name
        for d in known
        if isinstance(d.record, TargetRecord)
        for name in (d.record.name, *d.record.aliases)
    }
    every = {d.name for d in known} | targets
    for document in documents:
        record = document.record
        name: str | None = None
        if isinstance(record, IdeaRecord) and record.recipe is not None:
            name = record.recipe.refines
        elif isinstance(record, LessonRecord):
            name = record.idea
        dead = []
        if name is not None and name not in ideas:
            dead.append(f"refers to idea {name!r}, which does not exist")
        for evidence in getattr(record, "evidence", ()):
            if targets and evidence.target not in targets:
                dead.append(f"evidence on target {evidence.target!r}, which no record describes")
        for said in _NAMED.findall(split_template(document.body)[0]):
            if said not in every:
                dead.append(f"speaks of `{said}`, which no record is called")
        for message in dead:
            yield LintFault(kind="reference", path=document.path, message=message)


def _dead_links(documents: Sequence[Document]) -> Iterator[LintFault]:
    paths = {document.path for document in documents}
    for document in documents:
        for link in _LINK.findall(
            re.sub(r"```.*?```|`[^`\n]*`", "", document.body, flags=re.DOTALL)
        ):
            path = _joined(PurePosixPath(document.path).parent, link.partition("#")[0])
            if path not in paths:
                yield LintFault(
                    kind="reference",
                    path=document.path,
                    message=f"links to {link}, which is no record",
                )


def _joined(folder: PurePosixPath, link: str) -> str:
    parts: list[str] = []
    for part in (folder / link).parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _dead_scopes(documents: Sequence[Document], beside: Sequence[Document]) -> Iterator[LintFault]:
    # A misspelt vendor or language would hide a record from every query, silently.
    targets = [d.record for d in beside if isinstance(d.record, TargetRecord)]
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
                    dead = f"scope.{field} {name!r} belongs to no target: known are {listed}"
                    yield LintFault(kind="reference", path=document.path, message=dead)


def _broken_templates(documents: Sequence[Document]) -> Iterator[LintFault]:
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
            wrong = f"line {error.lineno} of the template: {error.message}"
            yield LintFault(kind="template", path=document.path, message=wrong)
            continue
        used = {
            node.attr
            for node in tree.find_all(nodes.Getattr)
            if isinstance(node.node, nodes.Name) and node.node.name == "k"
        }
        for name in sorted(used - knobs[document.name]):
            wrong = f"the template reads k.{name}, which is no knob: declare it"
            yield LintFault(kind="template", path=document.path, message=wrong)


def _broken_examples(documents: Sequence[Document]) -> Iterator[LintFault]:
    for document in documents:
        for number, text in enumerate(_FENCE.findall(document.body), start=1):
            try:
                ast.parse(textwrap.dedent(text))
            except SyntaxError as error:
                wrong = f"Python example {number}, line {error.lineno}: {error.msg}"
                yield LintFault(kind="example", path=document.path, message=wrong)
