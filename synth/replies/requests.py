"""Requests in a model's reply: what it wants to read before it gives ideas."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from synth.quoting import one_line
from synth.replies.source import listed_under, without_thoughts

MOST = 6  # in one reply
CHARACTERS = 120  # of one
Kind = Literal["read", "module", "search", "history"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# What the prompt shows of the form; small models copy it.
EXAMPLE = ("read NAME", "search QUESTION")
_FORM = re.compile(r"^\W*(read|module|search|history)\b(?:\s+of\b)?[\s:=]*(.*)$", re.I | re.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Something that a model wants to see.

    Attributes:
        kind: None where the words have none of the known forms.
        about: a name or a question.
        words: the request in one line.
    """

    kind: Kind | None
    about: str
    words: str


def with_requests(schema: str) -> str:
    """Return the schema of a reply that holds ideas or, in their place, requests.

    Both keys are required, as strict endpoints have it, and either list may be empty.

    Args:
        schema: of a reply with ideas, as JSON.
    """
    values = json.loads(schema)
    ideas = {**values["properties"]["ideas"], "minItems": 0}
    requests = {
        "type": "array",
        "maxItems": MOST,
        "items": {"type": "string", "maxLength": CHARACTERS},
    }
    # Endpoints write keys in the order of the schema: whether to ask is decided first.
    return json.dumps(
        {
            **values,
            "required": ["requests", "ideas"],
            "properties": {"requests": requests, "ideas": ideas},
        }
    )


def read_requests(text: str) -> tuple[Lookup, ...]:
    """Return the requests of a reply, each once, at most `MOST`; none where it holds no list of them."""
    said = without_thoughts(text)
    found = listed_under("requests", said) if said is not None else None
    every = (_lookup(entry) for entry in found or ())
    return tuple({one.words: one for one in every if one is not None}.values())[:MOST]


def said_again(requests: tuple[Lookup, ...]) -> str:
    """Return a reply with these requests and nothing else, as a conversation quotes it."""
    said = {"requests": [one.words for one in requests], "ideas": []}
    return json.dumps(said, ensure_ascii=False)


def _lookup(entry: Any) -> Lookup | None:
    if isinstance(entry, dict) and len(entry) == 1:
        ((name, value),) = entry.items()
        entry = f"{name} {value}"
    if not isinstance(entry, str) or not entry.strip() or entry.strip() in EXAMPLE:
        return None
    words = one_line(entry, CHARACTERS)
    form = _FORM.match(words)
    if form is None or not _bare(form.group(2)):
        return Lookup(kind=None, about=words, words=words)
    kind: Kind = next(one for one in KINDS if one == form.group(1).lower())
    about = _bare(form.group(2))
    between = " of " if kind == "history" else " "
    return Lookup(kind=kind, about=about, words=f"{kind}{between}{about}")


def _bare(name: str) -> str:
    return name.strip().strip("`'\"<>[]()").strip()
