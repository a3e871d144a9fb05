"""reStructuredText: docutils' own language, and Sphinx's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ingest.readers import Block, ParsedFile
from ingest.readers.blocks import BlockOutline, Heading, fence, prose, short, table
from kb.errors import RecordError

if TYPE_CHECKING:
    from docutils import nodes

_LANGUAGES = {"c++": "cpp", "python3": "python", "ipython": "python", "pycon": "python"}
_SKIPPED = frozenset(
    {
        "comment",
        "system_message",
        "substitution_definition",
        "target",
        "raw",
        "image",
        "pending",
        "meta",
        "generated",
        "footnote_reference",
        "problematic",
    }
)


class ReStructuredText:
    """Reads the document by itself: nothing is included, fetched or run."""

    def read(self, text: str, path: str) -> ParsedFile:
        """Read reStructuredText; what docutils does not know is read as content.

        Raises:
            RecordError: it has no text, or is nested too deeply.
        """
        from docutils import nodes

        from ingest.readers.rst.markup import parse

        tree = parse(text)
        first = next(iter(tree.findall(nodes.title)), None)
        title = PurePosixPath(path).stem if first is None else short(first.astext())
        outline = BlockOutline(title)
        outline.extend(_parts(tree, 0))
        sections = outline.sections()
        if not sections:
            raise RecordError(
                "expected paragraphs, found none (what is included or generated is not read): "
                "ingest what it includes"
            )
        return ParsedFile(kind="document", title=title, body=text, sections=sections)


def _parts(node: nodes.Element, level: int) -> Iterator[Heading | Block]:
    """Yield what stands below `node`, whose section has the level `level`."""
    for child in node.children:
        name = type(child).__name__
        if name in _SKIPPED or not hasattr(child, "children"):
            continue
        yield from _part(child, name, level)


def _part(node: nodes.Element, name: str, level: int) -> Iterator[Heading | Block]:
    if name == "section":
        yield from _parts(node, level + 1)
        return
    match name:
        case "title":
            yield Heading(level, node.astext()) if level else prose(f"**{node.astext()}**")
        case "Described":
            yield Heading(level + 1, str(node["signature"]))
            yield from _parts(node, level + 1)
            yield Heading(level + 1, "")
        case "paragraph" | "attribution" | "caption" | "rubric" | "subtitle":
            yield prose(_inline(node))
        case "literal_block" | "doctest_block" | "math_block":
            yield fence(node.astext(), _language(node, name))
        case "line_block":
            yield prose("\n".join(_inline(line) for line in node.findall() if _is_line(line)))
        case "table":
            yield from _table(node)
        case "bullet_list" | "enumerated_list":
            yield from _list(node, level)
        case "definition_list" | "field_list" | "option_list":
            yield from _terms(node, level)
        case (
            "note"
            | "warning"
            | "tip"
            | "hint"
            | "important"
            | "caution"
            | "danger"
            | "error"
            | ("attention")
        ):
            yield from _led(f"**{name.capitalize()}:** ", _parts(node, level))
        case _:
            yield from _parts(node, level)


def _led(words: str, parts: Iterator[Heading | Block]) -> Iterator[Heading | Block]:
    """Put `words` before what follows."""
    for part in parts:
        if words and isinstance(part, Block) and part.kind == "prose":
            yield prose(words + part.text)
        else:
            if words:
                yield prose(words)
            yield part
        words = ""


def _list(node: nodes.Element, level: int) -> Iterator[Heading | Block]:
    lines: list[str] = []
    numbered = type(node).__name__ == "enumerated_list"
    for number, item in enumerate(node.children, start=int(node.get("start", 1))):
        mark = f"{number}. " if numbered else "- "
        for part in _parts(item, level):
            if isinstance(part, Heading):
                lines.append(f"{mark}**{part.text}**")
            elif part.kind == "prose":
                lines.append(mark + part.text.replace("\n", "\n" + " " * len(mark)))
            else:
                yield prose("\n".join(lines))
                lines = []
                yield part
                continue
            mark = " " * len(mark)
    yield prose("\n".join(lines))


def _terms(node: nodes.Element, level: int) -> Iterator[Heading | Block]:
    """Yield what is defined: each term with what is said of it."""
    for item in node.children:
        *terms, said = item.children
        words = ", ".join(_inline(term) for term in terms)
        yield from _led(f"**{words}**: " if words else "", _parts(said, level))


def _table(node: nodes.Element) -> Iterator[Block]:
    from docutils import nodes

    title = next(iter(node.findall(nodes.title)), None)
    if title is not None:
        yield prose(_inline(title))
    rows: list[list[str]] = []
    hanging: dict[tuple[int, int], str] = {}
    for number, row in enumerate(node.findall(nodes.row)):
        cells: list[str] = []
        for entry in row.children:
            while (number, len(cells)) in hanging:
                cells.append(hanging.pop((number, len(cells))))
            text = " ".join(_inline(part) for part in entry.children)
            for _ in range(1 + int(entry.get("morecols", 0))):
                for below in range(int(entry.get("morerows", 0))):
                    hanging[number + 1 + below, len(cells)] = text
                cells.append(text)
        while (number, len(cells)) in hanging:
            cells.append(hanging.pop((number, len(cells))))
        rows.append(cells)
    yield table(rows)


def _inline(node: nodes.Node) -> str:
    """Return the text of a node in one line, code in backticks."""
    return " ".join(_raw(node).split())


def _raw(node: nodes.Node) -> str:
    from docutils import nodes

    if isinstance(node, nodes.Text):
        return str(node.astext())
    name = type(node).__name__
    if name in _SKIPPED:
        return str(node.astext()) if name == "problematic" else ""
    if name in {"literal", "math"}:
        text = str(node.astext())
        return f"`{text}`" if text and "`" not in text else text
    between = "" if isinstance(node, nodes.TextElement) else " "
    return between.join(_raw(child) for child in node.children)


def _is_line(node: nodes.Node) -> bool:
    return type(node).__name__ == "line"


def _language(node: nodes.Element, name: str) -> str:
    if name == "math_block":
        return "latex"
    if name == "doctest_block":
        return "python"
    found = [word for word in node.get("classes", ()) if word not in {"code", "none", "text"}]
    language = found[0].lower() if found else ""
    return _LANGUAGES.get(language, language)
