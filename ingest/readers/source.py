"""Source files, cut along functions and classes by tree-sitter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ingest.readers import Block, Reading, Section

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

BIG = 1500  # bytes: a class beyond this is cut along its methods
_CONTAINERS = frozenset(
    {
        "namespace_definition",
        "linkage_specification",
        "declaration_list",
        "preproc_if",
        "preproc_ifdef",
        "preproc_else",
        "preproc_elif",
    }
)
_CLASSES = frozenset({"class_definition", "class_specifier", "struct_specifier"})
_DEFINITIONS = _CLASSES | {"function_definition", "decorated_definition", "template_declaration"}


@dataclass(frozen=True, slots=True)
class _Unit:
    """A definition: its bytes and what it is called."""

    start: int
    end: int
    trail: tuple[str, ...]


class _Source:
    """Reads one language; the subclasses name its grammar."""

    def read(self, text: str, path: str) -> Reading:
        """Read a source file: a section for each definition, and for what stands between."""
        source = text.encode()
        title = PurePosixPath(path).name
        sections: list[Section] = []
        position = 0
        for unit in _units(self._parser.parse(source).root_node, ()):
            _add(sections, (title,), source[position : unit.start])
            _add(sections, (title, *unit.trail), source[unit.start : unit.end])
            position = unit.end
        _add(sections, (title,), source[position:])
        return Reading(kind="document", title=title, body=text, sections=tuple(sections))

    @cached_property
    def _parser(self) -> Parser:
        from tree_sitter import Language, Parser

        return Parser(Language(self._grammar()))

    def _grammar(self) -> object:
        raise NotImplementedError


class Python(_Source):
    """Python."""

    def _grammar(self) -> object:
        import tree_sitter_python

        return tree_sitter_python.language()


class Cpp(_Source):
    """C and C++."""

    def _grammar(self) -> object:
        import tree_sitter_cpp

        return tree_sitter_cpp.language()


class Cuda(_Source):
    """CUDA C++ and HIP, whose launches and qualifiers the C++ grammar does not know."""

    def _grammar(self) -> object:
        import tree_sitter_cuda

        return tree_sitter_cuda.language()


def _add(sections: list[Section], trail: tuple[str, ...], source: bytes) -> None:
    text = source.decode(errors="replace").strip("\n").rstrip()
    if any(character.isalnum() for character in text):
        sections.append(Section(trail=trail, blocks=(Block(text=text, kind="code"),)))


def _units(node: Node, trail: tuple[str, ...]) -> Iterator[_Unit]:
    """Yield the definitions below `node` in order, each with the comments that lead up to it."""
    comments: Node | None = None
    for child in node.children:
        if child.type == "comment":
            comments = comments or child
            continue
        if child.type in _DEFINITIONS:
            yield from _definition(child, trail, comments)
        elif child.type in _CONTAINERS:
            yield from _container(child, trail, comments)
        comments = None


def _container(node: Node, trail: tuple[str, ...], comments: Node | None) -> Iterator[_Unit]:
    body = node.child_by_field_name("body")
    if node.type == "linkage_specification" and body is not None and body.type in _DEFINITIONS:
        start = node.start_byte if comments is None else comments.start_byte
        yield _Unit(start, node.end_byte, (*trail, _name(body)))
        return
    inside = (*trail, _name(node)) if node.type == "namespace_definition" else trail
    yield from _units(node, inside)


def _definition(node: Node, trail: tuple[str, ...], comments: Node | None) -> Iterator[_Unit]:
    named = (*trail, _name(node))
    inner = _inner(node)
    body = inner.child_by_field_name("body")
    if inner.type in _CLASSES and body is not None and node.end_byte - node.start_byte > BIG:
        methods = list(_units(body, named))
        if methods:
            # The head of the class, up to its first method, keeps the name of the class.
            start = node.start_byte if comments is None else comments.start_byte
            yield _Unit(start, methods[0].start, named)
            yield from methods
            return
    start = node.start_byte if comments is None else comments.start_byte
    yield _Unit(start, node.end_byte, named)


def _inner(node: Node) -> Node:
    """Return the definition under decorators and template parameters."""
    for child in reversed(node.named_children):
        if node.type in {"decorated_definition", "template_declaration"} and (
            child.type in _DEFINITIONS
        ):
            return _inner(child)
    return node


def _name(node: Node) -> str:
    found: Node | None = _inner(node)
    while found is not None:
        named = found.child_by_field_name("name") or found.child_by_field_name("declarator")
        if named is None:
            # A pointer or a reference hides the declarator from its field.
            deeper = [one for one in found.named_children if one.type.endswith("declarator")]
            if not deeper:
                break
            named = deeper[0]
        found = named
    text = b"" if found is None else (found.text or b"")
    return " ".join(text.decode(errors="replace").split())[:80] or node.type
