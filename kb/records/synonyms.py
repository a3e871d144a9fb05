"""Other names of what a question is about: a document that says LDS answers one about shared memory."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from kb.config import shipped_docs
from kb.errors import RecordError
from kb.words import split_words

FILE = "vocabulary.yaml"

Names = tuple[str, ...]
Words = tuple[str, ...]


def other_names(question: str) -> list[str]:
    """Return the names that `question` could have used and did not, in the file's order.

    A name is in the question where its words are, one after the other, split and stemmed as the
    lexical index splits them.

    Raises:
        RecordError: the vocabulary cannot be read.
    """
    asked = tuple(split_words(question))
    found: dict[str, None] = {}
    for names in _vocabulary():
        there = [_within(words, asked) for _, words in names]
        if any(there):
            found.update(
                {name: None for (name, _), said in zip(names, there, strict=True) if not said}
            )
    return list(found)


def load_vocabulary(path: Path) -> tuple[Names, ...]:
    """Read groups of names.

    Raises:
        RecordError: it is not a list of lists of at least two names, or a name stands in two.
    """
    try:
        groups = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecordError(f"{path}: {' '.join(str(error).split())}") from error
    right = isinstance(groups, list) and all(
        isinstance(group, list) and len(group) > 1 and all(isinstance(one, str) for one in group)
        for group in groups
    )
    if not right:
        raise RecordError(f"{path}: expected lists of two names and more, one list a line")
    names = [name for group in groups for name in group]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RecordError(f"{path}: expected a name in one line only, found {twice[0]!r} in two")
    return tuple(tuple(group) for group in groups)


@cache
def _vocabulary() -> tuple[tuple[tuple[str, Words], ...], ...]:
    groups = load_vocabulary(shipped_docs() / FILE)
    return tuple(tuple((name, tuple(split_words(name))) for name in group) for group in groups)


def _within(words: Words, asked: Words) -> bool:
    span = len(words)
    return any(asked[at : at + span] == words for at in range(len(asked) - span + 1))
