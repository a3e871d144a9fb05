"""What counts as a word: identifiers whole and in parts, English by its stem."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

# Letters, digits, and what joins identifiers from inside: cp.async, sm_90a, __shfl_down_sync.
_TOKEN = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")

STOPWORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been but by can could do does for from had has have how i if in "
        "into is it its may more most no not of on or our should so such than that the their them "
        "then there these they this to was we were what when where which while who why will with "
        "would you ",
    )
)


def split_words(text: str) -> list[str]:
    """Return the words of `text` for matching.

    An identifier counts as itself and as its parts: ``loadTile4`` gives ``loadtile4``, ``load``,
    ``tile`` and ``4``. A question that spells it out finds it, and so does one that copies it.
    """
    return [word for token in split_tokens(text) for word in forms(token)]


def split_tokens(text: str) -> list[str]:
    """Return the tokens of `text`, each of which counts as the words that `forms` gives."""
    return _TOKEN.findall(text)


@lru_cache(maxsize=65536)
def forms(token: str) -> tuple[str, ...]:
    """Return the words that a token counts as."""
    whole = token.strip("_").lower()
    parts = [part.lower() for part in _PART.findall(token)]
    if not whole or whole in STOPWORDS:
        return ()
    if len(parts) < 2:
        return (_stemmer().stemWord(whole),)
    kept = [_stemmer().stemWord(part) for part in parts if part not in STOPWORDS]
    return (whole, *kept)


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")
