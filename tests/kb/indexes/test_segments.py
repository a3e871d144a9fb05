from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kb.indexes.files import Index, PassageColumns, Source, clean, load_index, write_index
from kb.indexes.segments import IndexedText
from kb.records.types import Scope

WORDS = ("swizzle", "prefetch", "tile", "warp", "bank")


def vector(name: str) -> np.ndarray:
    found = np.random.default_rng(int(name)).standard_normal(8).astype(np.float32)
    return found / np.linalg.norm(found)


def text(name: str, symptoms: tuple[str, ...] = ()) -> IndexedText:
    words = f"{WORDS[int(name) % 5]} number{int(name)}"
    return IndexedText(section="Notes", text=words, symptoms=symptoms, vector=vector(name))


def outline(names: Sequence[int], generation: str, mark: int = 0) -> PassageColumns:
    ids = [f"{name:04}" for name in sorted(names)]
    source = Source(shown="notes.md", kind="document", scope=Scope(), symptoms=())
    return PassageColumns(
        generation=generation,
        ids=np.array(ids, np.bytes_),
        marks=np.full(len(ids), mark, np.int64),
        sources=(source,) if ids else (),
        source_of=np.zeros(len(ids), np.int32),
        tokens=np.array([int(name) for name in ids], np.int32),
    )


class Library:
    """Generations of one library, each written from the one before."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.read: list[str] = []
        self.index: Index | None = None

    def hold(self, names: Sequence[int], mark: int = 0) -> Index:
        generation = str(len(list(self.root.iterdir())))
        folder = self.root / generation
        write_index(folder, "e", outline(names, generation, mark), self._read, self.index)
        self.index = load_index(folder)
        return self.index

    def _read(self, ids: Sequence[str]) -> list[IndexedText]:
        self.read.extend(ids)
        return [text(one) for one in ids]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    root = tmp_path / "index"
    root.mkdir()
    return Library(root)


def answers(index: Index, row: str) -> tuple[list[str], list[str]]:
    """What a vector and a word find, by identity."""
    every = np.ones(len(index.ids), bool)
    dense = index.dense.rank(vector(row), every, 5)
    words = index.lexical.rank(WORDS[int(row) % 5], every, 1000)
    return [index.ids[one.row] for one in dense], sorted(index.ids[one.row] for one in words)


def check(index: Index, names: Sequence[int], tmp_path: Path) -> None:
    """An index that grew answers as one that is made anew."""
    (tmp_path / "anew").mkdir(exist_ok=True)
    anew = Library(tmp_path / "anew").hold(names)
    assert sorted(index.ids) == sorted(anew.ids) == [f"{name:04}" for name in sorted(names)]
    for row, name in enumerate(index.ids):
        assert index.vectors[row] == pytest.approx(vector(name))
        assert int(index.tokens[row]) == int(name)
    for name in index.ids:
        assert answers(index, name) == answers(anew, name)
    assert index.vectors[[0, 1]].shape == (2, 8)


def test_what_is_new_is_read_and_nothing_else(library: Library, tmp_path: Path) -> None:
    library.hold(range(100))
    library.read.clear()
    grown = library.hold([*range(100), 200, 201])
    assert library.read == ["0200", "0201"]
    assert len(grown.segments) == 2
    check(grown, [*range(100), 200, 201], tmp_path)


def test_what_is_gone_is_not_found_and_nothing_is_read(library: Library, tmp_path: Path) -> None:
    library.hold(range(100))
    library.read.clear()
    left = [name for name in range(100) if name % 5]
    shrunk = library.hold(left)
    assert library.read == []
    check(shrunk, left, tmp_path)


def test_a_segment_with_much_gone_is_written_anew(library: Library, tmp_path: Path) -> None:
    library.hold(range(100))
    left = list(range(60))
    index = library.hold(left)
    assert [len(segment.ids) for segment in index.segments] == [60]
    check(index, left, tmp_path)


@pytest.mark.slow
def test_a_library_that_grows_by_pages_has_few_segments_and_writes_a_passage_seldom(
    library: Library,
) -> None:
    for size in range(16, 401, 16):
        index = library.hold(range(size))
    assert len(index.segments) <= 5
    assert len(library.read) < 400 * 6


def test_what_changes_beside_the_identity_is_indexed_anew(library: Library) -> None:
    library.hold(range(10))
    library.read.clear()
    library.hold(range(10), mark=1)
    assert len(library.read) == 10


def test_nothing_is_an_index_too(library: Library) -> None:
    index = library.hold([])
    none = np.zeros(0, bool)
    assert len(index.ids) == len(index.vectors) == 0
    assert index.dense.rank(vector("1"), none, 5) == []
    assert index.lexical.rank("tile", none, 5) == []
    assert len(library.hold([1]).ids) == 1


def test_old_generations_go_with_the_segments_that_only_they_had(library: Library) -> None:
    for names in (range(10), range(10, 20), range(20, 30)):
        library.hold(names)
    clean(library.root, 2)
    assert len(list((library.root / "segments").iterdir())) == 2
    assert library.index is not None
    assert len(load_index(library.root / library.index.generation).ids) == 10


def damage_length(folder: Path) -> None:
    path = folder / "vectors.npy"
    path.write_bytes(path.read_bytes()[:-16])


def damage_zeros(folder: Path) -> None:
    path = folder / "vectors.npy"
    path.write_bytes(path.read_bytes()[:128] + bytes(path.stat().st_size - 128))


def damage_words(folder: Path) -> None:
    np.save(folder / "bm25-rows.npy", np.zeros(1, np.int32))


def damage_names(folder: Path) -> None:
    ids = np.load(folder / "ids.npy")
    np.save(folder / "ids.npy", ids[::-1])


def damage_count(folder: Path) -> None:
    np.save(folder / "marks.npy", np.zeros(3, np.int64))


@pytest.mark.parametrize(
    "damage", [damage_length, damage_zeros, damage_words, damage_names, damage_count]
)
def test_what_is_not_whole_is_not_opened(library: Library, damage: object) -> None:
    index = library.hold(range(50))
    assert callable(damage)
    damage(library.root / "segments" / index.segments[0].name)
    with pytest.raises(ValueError, match=r"\S"):
        load_index(library.root / index.generation)


def test_a_passage_that_vanished_meanwhile_leaves_no_index(library: Library) -> None:
    index = library.hold(range(10))
    more = outline(range(20), "x")
    with pytest.raises(ValueError, match="expected 20 passages, found 19"):
        write_index(library.root / "x", "e", more, lambda ids: map(text, ids[1:]), index)
    assert not (library.root / "x").exists()
    assert len(list((library.root / "segments").iterdir())) == 1
