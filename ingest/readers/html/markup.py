"""HTML as headings and blocks: what a reader of the page sees, less its furniture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from selectolax.lexbor import LexborHTMLParser, LexborNode

from ingest.readers import Block
from ingest.readers.blocks import Heading, fence, prose, short, table

MAX_DEPTH = 120  # elements in elements: what is deeper is read as plain text
MAX_SPAN = 64  # columns or rows that one cell may claim
_NOISE = ", ".join(
    (
        "script, style, noscript, template, iframe, object, embed, svg, canvas, audio, video",
        "nav, footer, form, button, input, select, textarea, dialog, [hidden]",
        "[role=navigation], [role=search], [role=banner], [role=contentinfo]",
        '[style*="display:none"], [style*="display: none"], [style*="visibility:hidden"]',
        '[style*="visibility: hidden"], .katex-html, .sr-only, .visually-hidden',
        # Sphinx and docutils
        ".headerlink, .sphinxsidebar, .related, .toctree-wrapper, .viewcode-link, .linenos, .lineno",
        ".system-message, .prev-next-area, .wy-nav-side, .wy-breadcrumbs, .toc-drawer",
        ".sidebar-drawer, .bd-sidebar, .bd-sidebar-primary, .bd-sidebar-secondary, .copybtn",
        "aside.toc, div.toc, nav.contents, div.contents.topic, #table-of-contents",
        # Doxygen, mdBook, rustdoc and wikis
        "#nav-path, #side-nav, #top, .ttc, .dynheader, #nav-tree, .permalink, .summary, .ingroups",
        "#sidebar, #menu-bar, .nav-wrapper, .nav-wide-wrapper, .nav-chapters, a.anchor, a.src",
        # lists of links that generators write: index, modules, classes, results of a search
        ".genindextable, .indextable, .genindex-jumpbox, .modindex-jumpbox, table.directory",
        "#search-results, #searchbox, #fallback",
        "#toc, #TOC, .breadcrumbs, .breadcrumb, .navbar, .skip-link",
    )
)
_MAIN = ("[role=main]", "main", "div.body", "article", "#main-content", "div.contents", "#content")
_BLOCKS = frozenset(
    [
        "p",
        "div",
        "section",
        "article",
        "main",
        "ul",
        "ol",
        "dl",
        "table",
        "pre",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "blockquote",
        "figure",
        "figcaption",
        "details",
        "summary",
        "header",
        "aside",
        "fieldset",
        "address",
        "hr",
        "center",
        "body",
        "dd",
        "dt",
        "li",
        "caption",
    ]
)
_HAS_BLOCK = "p, div, pre, table, ul, ol, dl, h1, h2, h3, h4, h5, h6, blockquote, section"
_IN_LAYOUT = "pre, h1, h2, h3, h4, div.fragment"
_CODE = frozenset({"code", "tt", "kbd", "samp"})
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight|sourceCode|src)[-_ ]([A-Za-z][\w+#]*)")
_OF_A_SITE = re.compile(r"\s+[\u2014\u2013|-]\s+[^\u2014\u2013|]*\bdocumentation$", re.IGNORECASE)
_NO_LANGUAGE = frozenset({"default", "none", "notranslate", "source", "text", "plaintext", "code"})


def parse(text: str) -> LexborHTMLParser:
    """Parse a page and take out what is not its text."""
    page = LexborHTMLParser(text)
    for node in page.css(_NOISE):
        if node.tag not in {"html", "body"}:
            node.decompose()
    return page


def main_of(page: LexborHTMLParser) -> LexborNode | None:
    """Return the element with the text proper: the first likely one with a third of all text."""
    body = page.body
    if body is None:
        return None
    enough = _weight(body) / 3
    for selector in _MAIN:
        found = page.css_first(selector)
        if found is not None and _weight(found) >= enough:
            return found
    return body


def blocks_of(fragment: str) -> list[Block]:
    """Return the blocks of a stretch of HTML; headings in it become paragraphs."""
    body = parse(fragment).body
    if body is None:
        return []
    parts = stream(body)
    return [prose(f"**{one.text}**") if isinstance(one, Heading) else one for one in parts]


def stream(node: LexborNode) -> Iterator[Heading | Block]:
    """Yield headings and blocks below `node` in the order of the page."""
    return _Walk().walk(node, 0)


class _Walk:
    """One walk over a page: it knows the level of the last heading."""

    def __init__(self) -> None:
        self._level = 1

    def walk(self, node: LexborNode, depth: int) -> Iterator[Heading | Block]:
        if depth > MAX_DEPTH:
            yield prose(_line(node.text(deep=True, separator=" ")))
            return
        line: list[str] = []
        for child in node.iter(include_text=True):
            if not _is_block(child):
                line.append(_inline(child))
                continue
            yield prose(_line("".join(line)))
            line = []
            yield from self._block(child, depth)
        yield prose(_line("".join(line)))

    def _block(self, node: LexborNode, depth: int) -> Iterator[Heading | Block]:
        tag = node.tag or ""
        if tag in {"h1", "h2", "h3", "h4", "h5", "h6"}:
            self._level = int(tag[1])
            yield Heading(self._level, _line(_inline(node)))
        elif tag == "pre" or _has_class(node, "fragment"):
            yield _listing(node)
        elif _has_class(node, "memproto"):
            yield fence(_line(node.text(deep=True, separator=" ")), "cpp")
        elif tag == "table":
            yield from self._table(node, depth)
        elif tag in {"ul", "ol"}:
            yield from self._list(node, depth, numbered=tag == "ol")
        elif tag == "dl":
            yield from self._definitions(node, depth)
        elif tag == "summary" or _has_class(node, "admonition-title"):
            yield prose(f"**{_line(_inline(node))}**")
        else:
            yield from self.walk(node, depth + 1)

    def _list(self, node: LexborNode, depth: int, *, numbered: bool) -> Iterator[Heading | Block]:
        lines: list[str] = []
        for number, item in enumerate(node.iter(), start=1):
            mark = f"{number}. " if numbered else "- "
            for part in self.walk(item, depth + 1):
                if isinstance(part, Heading):
                    lines.append(f"{mark}**{part.text}**")
                elif not part.text:
                    continue
                elif part.kind == "prose":
                    lines.append(mark + part.text.replace("\n", "\n" + " " * len(mark)))
                else:
                    yield prose("\n".join(lines))
                    lines = []
                    yield part
                    continue
                mark = " " * len(mark)
        yield prose("\n".join(lines))

    def _definitions(self, node: LexborNode, depth: int) -> Iterator[Heading | Block]:
        """Yield terms with what is said of them; what a program can call is a section."""
        level = self._level + 1
        term = ""
        for child in node.iter():
            signature = child.tag == "dt" and (_has_class(child, "sig") or child.id)
            if signature:
                self._level = level
                yield Heading(level, _line(child.text(deep=True)))
            elif child.tag == "dt":
                term = f"**{_line(_inline(child))}**"
            else:
                said = [one for one in self.walk(child, depth + 1) if _says(one)]
                if term and said and isinstance(said[0], Block) and said[0].kind == "prose":
                    said[0] = prose(f"{term}: {said[0].text}")
                elif term:
                    yield prose(term)
                term = ""
                yield from said
        if self._level >= level:
            self._level = level - 1
            yield Heading(level, "")

    def _table(self, node: LexborNode, depth: int) -> Iterator[Heading | Block]:
        listing = node.css_first("td.code pre") or node.css_first("td.code")
        if listing is not None:
            yield _listing(listing)
            return
        lines = list(_lines(node))
        layout = node.css_first("th") is None and node.css_first(_IN_LAYOUT) is not None
        nested = len(node.css("table")) > 1  # the table itself is the first
        rows = [] if layout or nested else _rows(lines)
        width = max((len(row) for row in rows), default=0)
        if node.attributes.get("role") == "presentation" or width < 2:
            for line in lines:
                for cell in line.iter():
                    yield from self.walk(cell, depth + 1)
            return
        caption = node.css_first("caption")
        if caption is not None:
            yield prose(_line(_inline(caption)))
        yield table(rows)


def _says(part: Heading | Block) -> bool:
    return isinstance(part, Heading) or bool(part.text)


def _lines(table_node: LexborNode) -> Iterator[LexborNode]:
    """Yield the rows of a table, not those of tables in it."""
    for child in table_node.iter():
        if child.tag == "tr":
            yield child
        elif child.tag in {"thead", "tbody", "tfoot"}:
            yield from (one for one in child.iter() if one.tag == "tr")


def _rows(lines: Sequence[LexborNode]) -> list[list[str]]:
    """Return the texts of a table's cells; a cell over several columns or rows is repeated."""
    rows: list[list[str]] = []
    hanging: dict[int, tuple[int, str]] = {}  # column -> rows still to fill, text
    for line in lines:
        row: list[str] = []
        for cell in line.iter():
            if cell.tag not in {"td", "th"}:
                continue
            _fill(row, hanging)
            text = _line(_inline(cell)).replace("\n", " ")
            for _ in range(_span(cell, "colspan")):
                if (below := _span(cell, "rowspan") - 1) > 0:
                    hanging[len(row)] = (below, text)
                row.append(text)
        _fill(row, hanging)
        rows.append(row)
    return rows


def _fill(row: list[str], hanging: dict[int, tuple[int, str]]) -> None:
    while len(row) in hanging:
        below, text = hanging.pop(len(row))
        if below > 1:
            hanging[len(row)] = (below - 1, text)
        row.append(text)
        if len(row) > MAX_SPAN * MAX_SPAN:
            return


def _span(cell: LexborNode, name: str) -> int:
    text = cell.attributes.get(name) or "1"
    return min(int(text), MAX_SPAN) if text.isdecimal() and int(text) else 1


def _listing(node: LexborNode) -> Block:
    for line_break in node.css("br"):
        line_break.replace_with("\n")
    lines = node.css("div.line")
    if lines:  # Doxygen
        text = "\n".join(line.text(deep=True).rstrip("\n") for line in lines)
    else:
        text = node.text(deep=True)
    return fence(text.replace("\xa0", " "), _language(node))


def _language(node: LexborNode) -> str:
    """Return the language that the classes of a listing, of its code or around it name."""
    inner = node.css_first("code")
    around: list[LexborNode | None] = [inner, node, node.parent]
    around.append(node.parent.parent if node.parent is not None else None)
    for one in around:
        classes = "" if one is None else (one.attributes.get("class") or "")
        for found in _LANGUAGE.finditer(classes):
            name = found[1].lower()
            if name not in _NO_LANGUAGE:
                return {"python3": "python", "ipython3": "python", "c++": "cpp"}.get(name, name)
    return ""


def _inline(node: LexborNode, depth: int = 0) -> str:
    tag = node.tag or ""
    if tag.startswith(("-", "!")):  # text, or a comment
        return node.text(deep=False) if tag == "-text" else ""
    if tag in {"br", "img"}:
        return "\n" if tag == "br" else _picture(node)
    if depth > MAX_DEPTH or tag in _CODE:
        text = " ".join(node.text(deep=True).split())
        return f"`{text}`" if text and tag in _CODE and "`" not in text else text
    inner = "".join(_inline(child, depth + 1) for child in node.iter(include_text=True))
    if tag in {"sup", "sub"} and inner.strip():
        return ("^" if tag == "sup" else "_") + inner.strip()
    return f" {inner} " if tag in _BLOCKS else inner


def _picture(node: LexborNode) -> str:
    """Return what stands for a picture: of a formula, its source."""
    alt = node.attributes.get("alt") or ""
    return alt if _has_class(node, "math") or len(alt) < 3 else ""


def _is_block(node: LexborNode) -> bool:
    tag = node.tag or ""
    if tag in _BLOCKS:
        return True
    if tag.startswith("-") or tag in _CODE or tag in {"br", "img"}:
        return False
    return node.css_first(_HAS_BLOCK) is not None


def _has_class(node: LexborNode, name: str) -> bool:
    return name in (node.attributes.get("class") or "").split()


def _line(text: str) -> str:
    """Return text with its white space as a browser shows it: breaks only where <br> was."""
    lines = (" ".join(line.split()) for line in text.replace("\uf0c1", "").split("\n"))
    return " ".join(line for line in lines if line)


def _weight(node: LexborNode) -> int:
    return len(node.text(deep=True))


def title_of(page: LexborHTMLParser, main: LexborNode) -> str:
    """Return the title: the only first-level heading, or what the page's head says."""
    headings = main.css("h1")
    doxygen = page.css_first(".headertitle .title")
    head = page.css_first("head title")
    if len(headings) == 1:
        return short(_line(_inline(headings[0])))
    named: Sequence[LexborNode | None] = (doxygen, head, *headings[:1])
    texts = (_OF_A_SITE.sub("", short(one.text(deep=True))) for one in named if one is not None)
    return next((text for text in texts if text), "")
