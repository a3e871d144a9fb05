"""An index as retrieval asks it: which rows may answer, without walking through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kb.records.types import Kind, Scope
from kb.retrieval.aliases import find_asked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.indexes import Mask
    from kb.indexes.files import Index

# What a passage written for something else is worth, by the field in which it is: a neighbouring
# architecture is near, another vendor far.
DISTANCE = {"dtype": 1, "library": 1, "operator": 1, "architecture": 1, "language": 2, "vendor": 4}


class View:
    """The rows of one index by what a query asks of them.

    A large index has many documents of few sorts (kind, scope, symptoms), so questions are put to
    the sorts and answered for the rows by one look-up.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        sorts: dict[tuple[Kind, Scope, tuple[str, ...]], int] = {}
        of_source = [
            sorts.setdefault((source.kind, source.scope, source.symptoms), len(sorts))
            for source in index.sources
        ]
        self._sorts = tuple(sorts)
        self.source_of = np.asarray(index.source_of, np.intp)
        self.asked = find_asked(index)
        self._sort_of = np.asarray(of_source, np.intp)[self.source_of]
        self.of_kinds = lru_cache(maxsize=32)(self._of_kinds)
        self.outside = lru_cache(maxsize=32)(self._outside)
        self.answering = lru_cache(maxsize=32)(self._answering)

    def document(self, row: int) -> str:
        """Return the name of a row's document."""
        return self.index.sources[int(self.source_of[row])].shown

    def kind(self, row: int) -> Kind:
        """Return the kind of a row's document."""
        return self._sorts[int(self._sort_of[row])][0]

    def size(self, row: int) -> int:
        """Return how many passages a row's document has."""
        return int(self._sizes[self.source_of[row]])

    def tokens(self, row: int) -> int:
        """Return how many tokens the passages of a row's document have together."""
        return int(self._tokens[self.source_of[row]])

    def misses(self, row: int, scope: Scope) -> tuple[str, ...]:
        """Return the fields of `scope` that a row was not written for."""
        return self._sorts[int(self._sort_of[row])][1].misses(scope)

    @cached_property
    def _sizes(self) -> NDArray[np.intp]:
        return self._of_documents(None)

    @cached_property
    def _tokens(self) -> NDArray[np.intp]:
        return self._of_documents(self.index.tokens)

    def _of_documents(self, weights: NDArray[np.int32] | None) -> NDArray[np.intp]:
        """Return, for each source, the weights of all passages of its document; one each by default."""
        # One document is several sources where its passages have scopes of their own.
        names: dict[str, int] = {}
        number = [names.setdefault(one.shown, len(names)) for one in self.index.sources]
        of_source = np.asarray(number, np.intp)
        rows = self.asked.apart(np.ones(len(self.source_of), bool))
        own = None if weights is None else weights[rows]
        sums = np.bincount(of_source[self.source_of[rows]], own, minlength=len(names))
        found: NDArray[np.intp] = sums[of_source].astype(np.intp)
        return found

    def _of_kinds(self, kinds: tuple[Kind, ...]) -> Mask:
        """Return which rows are passages of these kinds; none stands for all."""
        of_kinds = self._rows([not kinds or kind in kinds for kind, _, _ in self._sorts]) > 0
        return self.asked.apart(of_kinds)

    def _outside(self, scope: Scope) -> NDArray[np.int8]:
        """Return how far each row is from the scope asked for; 0 is inside."""
        far = [sum(DISTANCE[name] for name in own.misses(scope)) for _, own, _ in self._sorts]
        return self._rows(far)

    def _answering(self, symptoms: tuple[str, ...]) -> NDArray[np.int8]:
        """Return how many of the symptoms each row answers."""
        asked = set(symptoms)
        return self._rows([len(asked.intersection(own)) for _, _, own in self._sorts])

    def _rows(self, values: Sequence[int]) -> NDArray[np.int8]:
        found: NDArray[np.int8] = np.asarray(values, np.int8)[self._sort_of]
        return found
