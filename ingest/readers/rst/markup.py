"""reStructuredText as a document tree, with what Sphinx adds to the language read as content."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en
from docutils.utils import SystemMessage

from kb.errors import RecordError

_ROLE = re.compile(r":([A-Za-z][A-Za-z0-9_.+:-]*):`")
_DIRECTIVE = re.compile(r"^\s*(?:[*+-]\s+)?\.\. ([A-Za-z][\w:+.-]*)::", re.MULTILINE)
_TARGET = re.compile(r"^(.*?)\s*<[^<>]+>$", re.DOTALL)
# Lists of other documents, and text that only Sphinx or Python could write.
_EMPTY = frozenset(
    {
        "toctree",
        "autosummary",
        "automodule",
        "autoclass",
        "autofunction",
        "autoattribute",
        "automethod",
        "autodata",
        "autoexception",
        "index",
        "tabularcolumns",
        "currentmodule",
        "module",
        "default-role",
        "highlight",
        "graphviz",
        "plot",
        "image",
        "figure-md",
        "include",
        "literalinclude",
        "raw",
        "contents",
        "sectnum",
        "meta",
        "ipython",
        "bibliography",
        "minigallery",
        "jupyter-kernel",
        "inheritance-diagram",
        "py:currentmodule",
        "py:module",
    }
)
_DESCRIBING = frozenset(
    {
        "function",
        "class",
        "method",
        "attribute",
        "data",
        "exception",
        "describe",
        "object",
        "property",
        "macro",
        "type",
        "struct",
        "enum",
        "member",
        "var",
        "option",
        "envvar",
        "classmethod",
        "staticmethod",
        "decorator",
        "program",
        "cmdoption",
    }
)
_LABELS = {
    "versionadded": "Added in",
    "versionchanged": "Changed in",
    "deprecated": "Deprecated since",
    "seealso": "See also:",
    "todo": "To do:",
}
_LISTINGS = frozenset({"sourcecode", "jupyter-execute", "testcode", "doctest", "parsed-literal"})
# Reading files and raw text are off; a tree is wanted, not a rendering.
_SETTINGS: dict[str, Any] = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "report_level": 5,
    "halt_level": 5,
    "syntax_highlight": "none",
    "smart_quotes": False,
    "doctitle_xform": False,
    "sectsubtitle_xform": False,
    "line_length_limit": 1_000_000,
    "input_encoding": "unicode",
    "trim_footnote_reference_space": True,
}


class Described(nodes.Element, nodes.General):  # type: ignore[misc]  # docutils has no types
    """A function, class or option that a document describes: its signature, then its content."""


def parse(text: str) -> nodes.document:
    """Return the tree of a document.

    Raises:
        RecordError: it is nested too deeply to be read.
    """
    _register(text)
    try:
        return publish_doctree(text, settings_overrides=_SETTINGS)
    except (RecursionError, SystemMessage) as error:
        raise RecordError(
            "expected reStructuredText, found blocks nested too deeply to be read: simplify it"
        ) from error


def _register(text: str) -> None:
    """Make docutils take every role and directive of `text` that it does not know."""
    for name in sorted({found.lower() for found in _ROLE.findall(text)}):
        if name not in en.roles and name not in roles._roles:
            roles.register_local_role(name, _role)
    for name in sorted({found.lower() for found in _DIRECTIVE.findall(text)} | _EMPTY):
        if name in _EMPTY:
            directives.register_directive(name, _Nothing)
        elif name in _LISTINGS or name.startswith("code-"):
            directives.register_directive(name, _Listing)
        elif name not in en.directives and name not in directives._directives:
            directives.register_directive(name, _Container)


def _role(
    name: str, rawtext: str, text: str, *_where: Any, **_options: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Read ``:role:`title <target>` `` as its title."""
    plain = nodes.unescape(text).strip()
    titled = _TARGET.match(plain)
    shown = titled[1] if titled and titled[1] else plain
    if name.endswith(("ref", "doc", "term", "menuselection", "guilabel", "abbr", "numref")):
        return [nodes.Text(shown)], []
    if shown.startswith("~"):  # only the last part of a dotted name is shown
        shown = shown[1:].rpartition(".")[2]
    return [nodes.literal(rawtext, shown.lstrip("!"))], []


class _AnyOption(dict[str, Any]):
    """Says of every option that it is known."""

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: str) -> Any:
        return directives.unchanged


class _Tolerant(Directive):  # type: ignore[misc]  # docutils has no types
    """Takes any argument, option and content."""

    optional_arguments = 100
    final_argument_whitespace = True
    has_content = True

    option_spec = _AnyOption()


class _Nothing(_Tolerant):
    """Leaves out."""

    def run(self) -> list[nodes.Node]:
        return []


class _Listing(_Tolerant):
    """A listing in the language of the argument."""

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        node = nodes.literal_block(text, text)
        if self.arguments:
            node["classes"] = ["code", self.arguments[0].split()[0]]
        return [node]


class _Container(_Tolerant):
    """Any other: what it describes, or its content with its argument before it."""

    def run(self) -> list[nodes.Node]:
        argument = " ".join(self.arguments)
        domain, _, kind = self.name.rpartition(":")
        if argument and (domain or kind in _DESCRIBING):
            node: nodes.Element = Described()
            node["signature"] = argument.split("\n")[0]
        else:
            node = nodes.container()
            line, _ = self.state.inline_text(argument, self.lineno)
            word = _LABELS.get(kind, "")
            if word or line:
                label = [nodes.strong(word, word), nodes.Text(" ")] if word else []
                node += nodes.paragraph("", "", *label, *line)
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]
