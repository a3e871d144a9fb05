"""Source files, cut along functions and classes by tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ingest.readers import Block, ParsedFile, Section
from ingest.readers.statements import line_end, line_start, parts

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

# Macros that stand for attributes, as CUTLASS_DEVICE and C10_LAUNCH_BOUNDS_1(threads()): a grammar
# that sees no preprocessor takes them for types and loses the function that follows.
_ATTRIBUTES = re.compile(
    rb"(?<=[\s(])(?<!define )(?!CUDA_ARCH)[A-Z][A-Z0-9_]*"
    rb"(?:DEVICE|INLINE|LAUNCH_BOUNDS|HOST|GLOBAL|NOEXCEPT|NODISCARD|UNUSED|RESTRICT|_API|_EXPORT|_ATTR|_FN|_FUNC)"
    rb"(?:_?[A-Z0-9_]*)"
    rb"(?:[ \t]*\((?:[^()\n;]|\([^()\n;]*\)){0,200}\))?(?=\s+[A-Za-z_:~\[])"
    rb"|\b__(?:kernel|global|local|constant|private)\b(?!_)"  # OpenCL's
)
# Lines that say nothing by themselves: conditions of the preprocessor, braces, names of namespaces.
_SCAFFOLD = re.compile(
    rb"(?:[ \t]*+(?:(?:#[ \t]*+(?:if|ifdef|ifndef|elif|else|endif|undef|pragma)\b[^\n]*+"
    rb"|[{}();]++[ \t]*+(?://[^\n]*+)?|(?:inline )?namespace\b[^\n{;]*+\{?|extern \"C\" \{"
    rb"|(?:public|private|protected):"
    rb"|[A-Z][A-Z0-9_]*(?:DEVICE|INLINE|BOUNDS|HOST)[A-Z0-9_]*(?:\([^\n;{]*\))?"
    rb")[ \t]*+)?\r?(?:\n|\Z))*"
)
_DEVICE = re.compile(rb"__(?:global|device|shared)__|<<<")


@dataclass(frozen=True, slots=True)
class _Unit:
    """A definition: its bytes and what it is called.

    `node` is the definition itself, where it may be cut between its statements.
    """

    start: int
    end: int
    trail: tuple[str, ...]
    node: Node | None = None


class _Source:
    """Reads one language; the subclasses name its grammar."""

    def read(self, text: str, path: str) -> ParsedFile:
        """Read a source file: a section for each definition, and for what stands between."""
        source = text.encode()
        title = PurePosixPath(path).name
        sections: list[Section] = []
        position = 0
        for unit in _units(self._parse(source), ()):
            start = max(position, line_start(source, unit.start))
            end = max(start, line_end(source, unit.end))
            if _SCAFFOLD.fullmatch(source[position:start]):
                start = position  # says under which condition the definition holds
            _add(sections, (title,), [_text(source[position:start])])
            cut = [_text(source[start:end])]
            if unit.node is not None:
                cut = parts(source, start, end, unit.node)
            _add(sections, (title, *unit.trail), cut)
            position = end
        _end(sections, (title,), source[position:])
        return ParsedFile(kind="document", title=title, body=text, sections=tuple(sections))

    def _parse(self, source: bytes) -> Node:
        return self._parser.parse(source).root_node

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


class CudaReader(_Source):
    """CUDA C++ and HIP, whose launches and qualifiers the C++ grammar does not know."""

    def _parse(self, source: bytes) -> Node:
        # Only for the parser, and byte for byte: what is quoted keeps its macros.
        masked = _ATTRIBUTES.sub(lambda found: b" " * len(found.group()), source)
        return super()._parse(masked)

    def _grammar(self) -> object:
        import tree_sitter_cuda

        return tree_sitter_cuda.language()


class CppReader(CudaReader):
    """C and C++, and headers that turn out to be CUDA."""

    @cached_property
    def _device(self) -> CudaReader:
        return CudaReader()

    def _parse(self, source: bytes) -> Node:
        if _DEVICE.search(source):
            return self._device._parse(source)
        return super()._parse(source)

    def _grammar(self) -> object:
        import tree_sitter_cpp

        return tree_sitter_cpp.language()


def _add(sections: list[Section], trail: tuple[str, ...], texts: Sequence[str]) -> None:
    blocks = [
        Block(text=text, kind="code")
        for text in texts
        if any(character.isalnum() for character in text)
    ]
    if blocks:
        sections.append(Section(trail=trail, blocks=tuple(blocks)))


def _end(sections: list[Section], trail: tuple[str, ...], rest: bytes) -> None:
    """Add what follows the last definition; what only closes something goes with that."""
    text = _text(rest)
    if not sections or not text or not _SCAFFOLD.fullmatch(rest):
        _add(sections, trail, [text])
        return
    *others, last = sections[-1].blocks
    longer = replace(last, text=f"{last.text}\n{text}")
    sections[-1] = replace(sections[-1], blocks=(*others, longer))


def _text(source: bytes) -> str:
    return source.decode(errors="replace").strip("\n").rstrip()


def _units(node: Node, trail: tuple[str, ...]) -> Iterator[_Unit]:
    """Yield the definitions below `node` in order, each with the comments that lead up to it."""
    comments: Node | None = None
    before = -1  # the line on which the sibling before ends
    for child in node.children:
        if child.type == "comment":
            if comments is not None or child.start_point.row != before:
                comments = comments or child
            continue
        # A directive ends where the next line begins.
        before = child.end_point.row - (child.end_point.column == 0)
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
    named = node.type == "namespace_definition" and node.child_by_field_name("name") is not None
    inside = (*trail, _name(node)) if named else trail
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
    yield _Unit(start, node.end_byte, named, inner)


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
