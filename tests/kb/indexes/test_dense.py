from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from kb.errors import ConfigError, StoreError
from kb.indexes import Dense, Ranked, best, int8_scan
from kb.indexes.chroma import Approximate, Chroma, ChromaServer, server
from kb.indexes.flat import Exact
from kb.indexes.int8_scan import Scan
from kb.indexes.segments import IndexedText, Joined, load_segment, write_segment
from kb.records.types import Passage

# posthog, which chromadb brings, touches a deprecated part of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:chromadb")

Make = Callable[[np.ndarray], Dense]


def vectors(count: int, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal((count, 16)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def passages(count: int, word: str = "text") -> list[Passage]:
    return [
        Passage(id=f"{word}{row}", document="d", section="s", kind="document", text=word, tokens=1)
        for row in range(count)
    ]


def sync(chroma: Chroma, rows: Sequence[Passage], matrix: np.ndarray, **how: bool) -> None:
    there = {row.id: (row, vector) for row, vector in zip(rows, matrix, strict=True)}
    chroma.sync(list(there), lambda ids: [there[one] for one in ids], **how)


def approximate(chroma: Chroma, rows: Sequence[Passage], matrix: np.ndarray) -> Approximate:
    ids = np.array([row.id for row in rows], np.bytes_)
    return Approximate(chroma, Exact(matrix), ids, matrix, 0)


@pytest.fixture(params=["exact", "scan", "joined", "chroma"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def build(matrix: np.ndarray) -> Dense:
        if request.param == "chroma":
            rows = passages(len(matrix))
            named = request.getfixturevalue("chroma")
            sync(Chroma(named, tmp_path, "e"), rows, matrix)
            return approximate(Chroma(named, tmp_path, "e"), rows, matrix)
        monkeypatch.setattr(
            int8_scan, "FULL", 2
        )  # so that few rows are scanned, not compared in full
        Exact.write(tmp_path, matrix)
        exact = Exact.load(tmp_path)
        if request.param == "exact":
            return exact
        Scan.write(tmp_path, matrix)
        if request.param == "scan":
            return Scan.load(tmp_path, exact.matrix)
        return joined(tmp_path, matrix)

    return build


def joined(root: Path, matrix: np.ndarray) -> Joined:
    """Two segments, one with a passage in it that is gone."""
    ids = np.array([f"{row:04}" for row in range(len(matrix))], np.bytes_)
    half = len(matrix) // 2
    stale = vectors(1, 99)
    kept = []
    for part in (slice(0, half), slice(half, None)):
        rows = np.concatenate([stale, matrix[part]])
        names = np.concatenate([np.array([b"   "]), ids[part]])
        texts = [IndexedText(section="s", text="t", symptoms=(), vector=row) for row in rows]
        name = write_segment(root, names, np.zeros(len(rows), np.int64), texts)
        kept.append((load_segment(root, name), np.arange(1, len(rows))))
    return Joined(kept, ids)


class TestDense:
    def test_the_nearest_come_first(self, make: Make) -> None:
        matrix = vectors(50)
        ranked = make(matrix).rank(matrix[7], np.ones(50, bool), 5)
        expected = np.argsort(-(matrix @ matrix[7]), kind="stable")[:5]
        assert [one.row for one in ranked] == list(expected)
        assert ranked[0].score == pytest.approx(1.0, abs=1e-5)
        assert ranked[4].score == pytest.approx(float(matrix[expected[4]] @ matrix[7]), abs=1e-5)

    def test_a_filter_finds_what_is_far_too(self, make: Make) -> None:
        matrix = vectors(60)
        far = np.argsort(matrix @ matrix[0])[:3]
        among = np.zeros(60, bool)
        among[far] = True
        ranked = make(matrix).rank(matrix[0], among, 10)
        assert sorted(one.row for one in ranked) == sorted(far)

    def test_nothing_admitted_gives_nothing(self, make: Make) -> None:
        assert make(vectors(3)).rank(vectors(1)[0], np.zeros(3, bool), 5) == []


def test_ties_are_cut_by_row() -> None:
    scores = np.array([1, 2, 2, 2, 0], np.float32)
    assert best(scores, np.arange(5), 2) == [Ranked(1, 2.0), Ranked(2, 2.0)]


def test_bytes_find_what_full_numbers_find(tmp_path: Path) -> None:
    # Nothing is harder for a quantised index than vectors that have no structure at all.
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((30_000, 64)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    Scan.write(tmp_path, matrix)
    every = np.ones(len(matrix), bool)
    approximate, exact = Scan.load(tmp_path, matrix), Exact(matrix)
    for query in matrix[:10] + 0.1 * matrix[10:20]:
        expected = [one.row for one in exact.rank(query, every, 100)]
        found = [one.row for one in approximate.rank(query, every, 100)]
        assert len(set(found) & set(expected)) >= 99
        assert found[:10] == expected[:10]


def test_chroma_holds_what_it_was_last_given(tmp_path: Path, chroma: ChromaServer) -> None:
    collection = Chroma(chroma, tmp_path, "e")
    sync(collection, passages(5), vectors(5))
    rows = [*passages(2), *passages(4, "new")]
    matrix = np.concatenate([vectors(2), vectors(4, 1)])
    sync(collection, rows, matrix)
    assert collection.count() == 6
    found = approximate(Chroma(chroma, tmp_path, "e"), rows, matrix)
    assert found.rank(matrix[5], np.ones(6, bool), 1)[0].row == 5


def test_a_collection_is_looked_through_before_it_is_believed(
    tmp_path: Path, chroma: ChromaServer
) -> None:
    collection = Chroma(chroma, tmp_path, "e")
    matrix = vectors(5)
    sync(collection, passages(5), matrix)
    assert collection.whole(5, [("text3", matrix[3])])
    assert not collection.whole(6, [])
    assert not collection.whole(5, [("text9", matrix[3])])


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("gpu7:8001", "http://gpu7:8001 default_tenant default_database"),
        ("http://gpu7", "http://gpu7:8000 default_tenant default_database"),
        ("https://gpu7/team", "https://gpu7:443 team default_database"),
        ("http://[::1]:8000/team/kernels", "http://::1:8000 team kernels"),
    ],
)
def test_a_server_is_named_by_its_address(
    address: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_CHROMA", address)
    found = server()
    assert found is not None
    assert f"{found.shown} {found.tenant} {found.database}" == expected


@pytest.mark.parametrize("address", ["ftp://gpu7", "gpu7:many", "http://gpu7/a/b/c", "http://"])
def test_what_is_no_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_CHROMA", address)
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        server()


def test_a_server_that_does_not_answer_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_CHROMA", "127.0.0.1:9")
    named = server()
    assert named is not None
    with pytest.raises(
        StoreError, match=r"127\.0\.0\.1:9: Chroma failed .*unset KB_CHROMA"
    ) as caught:
        sync(Chroma(named, tmp_path, "e"), passages(1), vectors(1))
    assert "\n" not in str(caught.value)


def test_a_server_holds_the_collections_of_several_homes(
    tmp_path: Path, chroma: ChromaServer
) -> None:
    matrix = vectors(50)
    mine, theirs = Chroma(chroma, tmp_path / "a", "e"), Chroma(chroma, tmp_path / "b", "e")
    sync(mine, passages(50), matrix)
    sync(theirs, passages(3, "other"), matrix[:3])
    dense = approximate(Chroma(chroma, tmp_path / "a", "e"), passages(50), matrix)
    expected = Exact(matrix).rank(matrix[7], np.ones(50, bool), 5)
    assert [one.row for one in dense.rank(matrix[7], np.ones(50, bool), 5)] == [
        one.row for one in expected
    ]
    sync(mine, passages(2), matrix[:2], anew=True)
    assert (mine.count(), theirs.count()) == (2, 3)
    assert not (tmp_path / "a").exists()
