"""Other words for a passage: how rows hold the ways in which it is asked for.

A record may list how an engineer would ask for it. Each list is a row of its own, embedded and
matched as passages are, and never quoted: whoever meets it is given the passage that it speaks for.
Its identity is that passage's with its own hash behind, so that both come and go together.
"""

from __future__ import annotations

MARK = "?"  # stands in no identity of a passage, which is hexadecimal
WIDTH = 32  # digits of a passage's identity


def asked_identity(passage: str, digest: str) -> str:
    """Return the identity of a row that speaks for `passage`."""
    return f"{passage}{MARK}{digest[:8]}"


def speaks_for(identity: str) -> str | None:
    """Return the identity of the passage that a row speaks for; None where it is one itself."""
    passage, mark, _ = identity.partition(MARK)
    return passage if mark else None
