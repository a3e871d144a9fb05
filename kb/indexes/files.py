"""The indexes of one generation of the store, written to a folder and mapped back.

The folder appears under its final name only when it is whole, so a killed writer leaves nothing
that a reader could mistake for an index.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb.indexes import Dense, Lexical
from kb.types import Kind, Passage, Scope

if TYPE_CHECKING:
    from kb.indexes import Vector

ROWS = "rows.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a filter asks of a document; `shown` is its name in quotations."""

    shown: str
    kind: Kind
    scope: Scope
    symptoms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The indexes of one generation, mapped from a folder.

    Attributes:
        ids: identity of each row's passage.
        sources: documents of the passages.
        source_of: for each row, the number of its document in `sources`.
        vectors: float32, one unit row for each passage.
    """

    generation: str
    ids: tuple[str, ...]
    sources: tuple[Source, ...]
    source_of: tuple[int, ...]
    tokens: tuple[int, ...]
    vectors: Vector
    dense: Dense
    lexical: Lexical


def write_index(
    folder: Path, generation: str, passages: Sequence[Passage], vectors: Vector
) -> None:
    """Write the indexes of `passages` to `folder`, all or nothing.

    Raises:
        OSError: it cannot be written.
    """
    from kb.indexes.exact import Exact
    from kb.indexes.lexical import Bm25

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="new-") as parent:
        draft = Path(parent) / folder.name
        draft.mkdir()
        Exact.write(draft, vectors)
        Bm25.write(draft, passages)
        (draft / ROWS).write_text(json.dumps(_table(generation, passages)), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(draft, folder)


def load_index(folder: Path) -> Index:
    """Map the indexes in `folder`.

    Raises:
        OSError: they are not there.
    """
    from kb.indexes.exact import Exact
    from kb.indexes.lexical import Bm25

    table = json.loads((folder / ROWS).read_text(encoding="utf-8"))
    exact = Exact.load(folder)
    return Index(
        generation=table["generation"],
        ids=tuple(table["ids"]),
        sources=tuple(_source(value) for value in table["sources"]),
        source_of=tuple(table["source_of"]),
        tokens=tuple(table["tokens"]),
        vectors=exact.matrix,
        dense=exact,
        lexical=Bm25.load(folder),
    )


def _table(generation: str, passages: Sequence[Passage]) -> dict[str, object]:
    numbers: dict[Source, int] = {}
    source_of = []
    for one in passages:
        source = Source(shown=one.document, kind=one.kind, scope=one.scope, symptoms=one.symptoms)
        source_of.append(numbers.setdefault(source, len(numbers)))
    return {
        "generation": generation,
        "ids": [one.id for one in passages],
        "sources": [asdict(source) for source in numbers],
        "source_of": source_of,
        "tokens": [one.tokens for one in passages],
    }


def _source(value: dict[str, object]) -> Source:
    scope = value["scope"]
    symptoms = value["symptoms"]
    assert isinstance(scope, dict)
    assert isinstance(symptoms, list)
    return Source(
        shown=str(value["shown"]),
        kind=value["kind"],  # type: ignore[arg-type] # written from a Kind by _table
        scope=Scope(**{name: tuple(found) for name, found in scope.items()}),
        symptoms=tuple(symptoms),
    )
