"""How long-running work tells whoever asked for it where it stands."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Is told what is being done and how far it is; it may draw, print or ignore it.

    `total` is 0 where the length is not known.
    """

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note of one step."""
        ...


def silent(what: str, done: int, total: int) -> None:  # noqa: ARG001 - the seam's signature
    """Ignore progress."""
