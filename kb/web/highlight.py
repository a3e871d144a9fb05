"""Sources with their words coloured, and prose from Markdown: as HTML that holds no foreign mark-up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from kb.visible import visible
from kb.web.text import shortened

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from pygments.lexer import Lexer

_MOST = 120_000  # characters beyond which a source is not coloured
_LONG_STRING = 120  # characters of a Python string that is looked at as a program of its own
_NATIVE = re.compile(r"#include|__global__|extern \"C\"|\btemplate\s*<|__device__")
# The classes of the style sheet by the first letters of Pygments' short names.
_CLASSES = (
    ("c", "co"),
    ("k", "kw"),
    ("s", "st"),
    ("m", "nu"),
    ("nf", "fn"),
    ("nc", "fn"),
    ("nd", "de"),
    ("cp", "de"),
)


@lru_cache(maxsize=64)
def lines(source: str, language: str = "python") -> tuple[Markup, ...]:
    """Return the lines of a source, each with its words in classes.

    C++ in a Python string is coloured as C++. What is long is shown plain.
    """
    source = visible(shortened(source))
    if len(source) > _MOST:
        return tuple(escape(line) for line in source.split("\n"))
    made = [""]
    for kind, word in _merged(_tokens(source, language)):
        first, *rest = word.split("\n")
        made[-1] += _word(kind, first)
        made += [_word(kind, line) for line in rest]
    if len(made) > 1 and not made[-1]:
        made.pop()
    return tuple(map(Markup, made))


def _word(kind: str, word: str) -> str:
    if not word:
        return ""
    safe = escape(word)
    return f'<i class="{kind}">{safe}</i>' if kind else str(safe)


def _merged(tokens: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield words with their neighbours of the same kind."""
    for kind, words in groupby(tokens, key=itemgetter(0)):
        yield kind, "".join(word for _, word in words)


def _tokens(source: str, language: str) -> Iterator[tuple[str, str]]:
    from pygments.token import STANDARD_TYPES, Token

    held = ""
    for kind, word in _lexer(language).get_tokens(source):
        in_string = kind in Token.Literal.String and language == "python"
        if held and not in_string:
            yield from _string(held)
            held = ""
        if in_string:
            held += word
            continue
        yield _class(STANDARD_TYPES.get(kind, "")), word
    if held:
        yield from _string(held)


def _string(word: str) -> Iterable[tuple[str, str]]:
    if len(word) > _LONG_STRING and _NATIVE.search(word):
        return _tokens(word, "cuda" if "__global__" in word else "cpp")
    return [("st", word)]


@cache
def _class(short: str) -> str:
    found = [name for start, name in _CLASSES if short.startswith(start)]
    return found[-1] if found else ""


@cache
def _lexer(language: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    # Nothing is stripped or added: lines keep their numbers.
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


def prose(source: str, most: int = 60_000) -> Markup:
    """Return Markdown as HTML: paragraphs, lists, tables and code; no links, pictures or HTML."""
    text = visible(shortened(source, most))
    return Markup(_markdown().render(text))  # noqa: S704 - HTML is off: the parser escapes all text


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")
    made.disable(["link", "image", "autolink", "html_inline", "html_block", "reference"])
    # Headings of a quotation are not headings of the page.
    for name in ("heading_open", "heading_close"):
        made.add_render_rule(name, _heading)
    made.add_render_rule("fence", _fence)
    made.add_render_rule("code_block", _fence)
    return made


def _heading(_self: Any, tokens: Any, place: int, _options: Any, _env: Any) -> str:
    return '<p class="heading">' if tokens[place].nesting > 0 else "</p>\n"


def _fence(_self: Any, tokens: Any, place: int, _options: Any, _env: Any) -> str:
    return f'<pre tabindex="0"><code>{escape(tokens[place].content)}</code></pre>\n'
