"""How long-running work tells whoever asked for it where it stands."""

from __future__ import annotations

import sys
from typing import Protocol

from kb.visible import visible


class Progress(Protocol):
    """Is told what is being done and how far it is; it may draw, print or ignore it.

    The text stays the same from step to step of one piece of work; `total` is left out where the
    length is not known.
    """

    def __call__(self, what: str, done: float | None = None, total: float | None = None, /) -> None:
        """Take note of one step."""
        ...


def silent(what: str, done: float | None = None, total: float | None = None, /) -> None:
    """Ignore progress."""


def say(line: str) -> None:
    """Print one line of progress."""
    sys.stderr.write(f"{visible(line)}\n")
    sys.stderr.flush()
