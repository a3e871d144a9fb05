"""Which passage has which word how often: written in one pass of bounded memory, and mapped back.

A word is found by the 64 bits of its hash: a million words are opened without reading any. The
counts are kept, not scores: what a word is worth depends on all passages, and here are some of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.indexes.arrays import new_array
from kb.words import forms, split_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 8192  # passages whose words are sorted at a time
TOKENS = 500_000  # tokens whose words are remembered
_PARTS = ("words", "starts", "rows", "counts", "lengths")


class Postings:
    """The words of some passages.

    Args:
        words: uint64, the hash of each word, ascending.
        starts: of each word, where it starts in `rows` and `counts`; one more at the end.
        rows: int32, passages that have the word, ascending.
        counts: uint16, how often they have it.
        lengths: int32, the number of words of each passage.
    """

    def __init__(
        self,
        words: NDArray[np.uint64],
        starts: NDArray[np.int64],
        rows: NDArray[np.int32],
        counts: NDArray[np.uint16],
        lengths: NDArray[np.int32],
    ) -> None:
        self._words = words
        self._starts = starts
        self._rows = rows
        self._counts = counts
        self.lengths = lengths

    @classmethod
    def load(cls, folder: Path) -> Postings:
        """Map what `write` left in `folder`.

        Raises:
            ValueError: the files do not belong together.
        """
        parts = [np.load(folder / f"bm25-{name}.npy", mmap_mode="r") for name in _PARTS]
        words, starts, rows, counts, _ = parts
        if len(starts) != len(words) + 1 or not len(rows) == len(counts) == starts[-1]:
            raise ValueError("the lists of words have other lengths than their table says")
        return cls(*parts)

    def find(self, word: str) -> slice:
        """Return where `word` is in the lists; empty where no passage has it."""
        wanted = word_hash(word)
        at = int(np.searchsorted(self._words, np.uint64(wanted)))
        if at == len(self._words) or int(self._words[at]) != wanted:
            return slice(0, 0)
        return slice(int(self._starts[at]), int(self._starts[at + 1]))

    def lists(self, where: slice) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """Return the passages of a word, and how often each has it."""
        return self._rows[where], self._counts[where]


def write_postings(folder: Path, texts: Iterable[str]) -> None:
    """Write the words of `texts` into `folder`; only some thousand texts are held at a time."""
    vocabulary = _Vocabulary()
    lengths: list[int] = []
    with tempfile.TemporaryDirectory(dir=folder) as spilled:
        chunks = []
        for number, chunk in enumerate(_chunks(texts)):
            path = Path(spilled) / f"{number}.npy"
            first = len(lengths)
            np.save(path, _sorted_chunk(chunk, first, vocabulary, lengths))
            chunks.append(path)
        _merge(folder, vocabulary.numbers, chunks)
    np.save(folder / "bm25-lengths.npy", np.array(lengths, np.int32))


def word_hash(word: str) -> int:
    """Return the number by which a word is found."""
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")


def _chunks(texts: Iterable[str]) -> Iterable[list[str]]:
    chunk: list[str] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class _Vocabulary:
    """Numbers of words in the order in which they came, and of tokens the words they count as."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._tokens: dict[str, tuple[int, ...]] = {}

    def of(self, text: str) -> Iterator[int]:
        """Return the numbers of the words of `text`."""
        if len(self._tokens) > TOKENS:
            self._tokens.clear()
        tokens, known = split_tokens(text), self._tokens
        for token in tokens:
            if token not in known:
                known[token] = tuple(map(self._number, forms(token)))
        return chain.from_iterable(map(known.__getitem__, tokens))

    def _number(self, word: str) -> int:
        return self.numbers.setdefault(word, len(self.numbers))


def _sorted_chunk(
    texts: Sequence[str], first: int, vocabulary: _Vocabulary, lengths: list[int]
) -> NDArray[np.int32]:
    """Return (word, row, count) of some texts as three rows, by word and then by row."""
    words: list[int] = []
    ends = [0]
    for text in texts:
        words.extend(vocabulary.of(text))
        ends.append(len(words))
    sizes = np.diff(np.array(ends))
    lengths.extend(sizes.tolist())
    word = np.array(words, np.int64)
    row = np.repeat(np.arange(first, first + len(texts)), sizes)
    pairs, counts = np.unique((word << 32) | row, return_counts=True)
    return np.stack([pairs >> 32, pairs & 0xFFFFFFFF, counts]).astype(np.int32)


def _merge(folder: Path, numbers: dict[str, int], chunks: Sequence[Path]) -> None:
    """Put the lists of each word behind each other, words by their hash."""
    hashes = np.fromiter(map(word_hash, numbers), np.uint64, len(numbers))
    order = np.argsort(hashes)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    total = np.zeros(len(order), np.int64)
    for path in chunks:
        total += np.bincount(place[np.load(path)[0]], minlength=len(order))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(total)])
    rows = new_array(folder / "bm25-rows.npy", np.int32, (int(starts[-1]),))
    counts = new_array(folder / "bm25-counts.npy", np.uint16, (int(starts[-1]),))
    free = starts[:-1].copy()
    for path in chunks:
        word, row, count = np.load(path)
        # A chunk is sorted by word: what follows the first of a word stands behind it.
        begins = np.flatnonzero(np.diff(word, prepend=-1))
        sizes = np.diff(begins, append=len(word))
        within = np.arange(len(word)) - np.repeat(begins, sizes)
        to = free[place[word]] + within
        rows[to] = row
        counts[to] = np.minimum(count, 65535)
        free[place[word[begins]]] += sizes
    np.save(folder / "bm25-words.npy", hashes[order])
    np.save(folder / "bm25-starts.npy", starts)
