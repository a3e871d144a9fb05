"""What a letter looks like, and what its answer must hold at least."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from synth.models import Request
from synth.replies.source import extract_source, fences, listed_under, without_thoughts

# Opens an edit of the parent, which whoever knows the parent reads.
_EDIT = re.compile(r"^[ \t]*<{5,9}[ \t]*SEARCH\b", re.MULTILINE)


def kind_of(request: Request) -> str:
    """Return one word for what is asked: it stands in the letter's name."""
    if request.schema is None:
        return "source"
    return "ideas" if '"ideas"' in request.schema else "answer"


def letter_text(
    request: Request, name: str, kind: str, named: Callable[[str], str] = lambda text: text
) -> str:
    """Return a letter as its reader sees it.

    Args:
        named: names in a message what earlier letters quoted; by default nothing.
    """
    turns = [(turn.role, named(turn.content)) for turn in request.messages]
    shorter = any(
        text != turn.content for (_, text), turn in zip(turns, request.messages, strict=True)
    )
    asked = {"source": "a source", "ideas": "ideas"}.get(kind, "an answer")
    head = (
        f"# kb asks for {asked}: {name}\n\n"
        f"Write the answer to `{name}.reply.md` in this folder: under another name first, then "
        f"rename it, so that nobody reads half of it. {_form(request, name)} If the answer cannot be "
        f"used, `{name}.problem.md` says why.{_more(request)}{_whole(name) if shorter else ''}\n\n"
        f"At most {request.max_tokens:,} tokens. What is asked begins here.\n\n---\n"
    )
    parts = [text if role == "user" else f"[{role}]\n\n{text}" for role, text in turns]
    return "\n".join([head, "\n\n".join(parts), ""])


def trouble(request: Request, text: str) -> str:
    """Return why an answer cannot be one to `request`, in one line; "" where it may be.

    It sees only what the form tells: whether the ideas are new or the source is right is for
    whoever asked.
    """
    if not text.strip():
        return "it is empty"
    if request.schema is not None:
        said = without_thoughts(text)
        asked = json.loads(request.schema).get("properties", {})
        if said is None or not (
            any(_is_json(one) for one in _pieces(said))
            or any(listed_under(key, said) is not None for key in asked)
        ):
            return "it holds no JSON object: give one that follows the schema in the letter"
        return ""
    if _EDIT.search(text):
        return ""
    return extract_source(text).problem


def _more(request: Request) -> str:
    """Return what else a letter may be answered with, and what it follows from."""
    told = ""
    if request.schema is not None and '"requests"' in request.schema:
        told = (
            "\n\nIt may hold `requests` in place of ideas (with `ideas` empty): the next letter "
            "holds the answers, and asks again."
        )
    if any(turn.role == "assistant" for turn in request.messages):
        told += "\n\nWhat you asked for in an earlier letter stands at its end."
    return told


def _whole(name: str) -> str:
    return (
        "\n\nWhat an earlier letter or answer of this folder holds is named here and not repeated. "
        f"Who has not read those reads `{name}.whole.md` instead."
    )


def _form(request: Request, name: str) -> str:
    if request.schema is None:
        return "Its form is told at the end of this file; what stands around a fence is not read."
    return (
        "It is one JSON object, alone or in a fence, in the form that is told at the end of this file "
        f"(its schema is in `{name}.json`)."
    )


def _pieces(text: str) -> list[str]:
    begin, end = text.find("{"), text.rfind("}")
    return [*fences(text), text[begin : end + 1]]


def _is_json(text: str) -> bool:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list)
