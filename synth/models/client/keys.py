"""Keys of endpoints: from the environment or the keyring, and shown nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec

from kb.errors import ModelError

SERVICE = "kb"  # under which a keyring holds keys: `keyring set kb OPENAI_API_KEY`
HIDDEN = "***"
_SHORTEST = 5  # characters: what is shorter would blot out words


class Key:
    """A secret that never shows itself.

    Args:
        source: the name that it was found under; "" where there is none.
        value: the secret itself.
    """

    __slots__ = ("_value", "source")

    def __init__(self, source: str = "", value: str = "") -> None:
        self.source = source
        self._value = value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"Key({self.source!r})"

    def reveal(self) -> str:
        """Return the secret, for the client that sends it and for nobody else."""
        return self._value

    def hide(self, text: str) -> str:
        """Return `text` without the secret."""
        if len(self._value) < _SHORTEST:
            return text
        return text.replace(self._value, HIDDEN)


def find_key(names: Iterable[str]) -> Key:
    """Return the first key that the environment or the keyring holds; an empty one where none does.

    Raises:
        ModelError: what was found cannot be sent in a header.
    """
    for name in names:
        value = os.environ.get(name, "").strip() or _ring(name)
        if value:
            if not value.isascii() or not value.isprintable():
                raise ModelError(
                    f"{name}: expected a key of printable ASCII characters, found others: "
                    "copy it again"
                )
            return Key(name, value)
    return Key()


def _ring(name: str) -> str:
    """Return what the system's keyring holds, where the package `keyring` is installed."""
    if find_spec("keyring") is None:
        return ""
    import keyring
    from keyring.errors import KeyringError

    try:
        return (keyring.get_password(SERVICE, name) or "").strip()
    except KeyringError:  # locked, or a machine without any: as if it held nothing
        return ""
