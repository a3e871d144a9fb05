from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kb.errors import ConfigError, StoreError
from kb.indexes import Dense, Ranked, best
from kb.indexes.chroma import Chroma
from kb.indexes.exact import Exact
from kb.types import Passage

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


@pytest.fixture(params=["exact", "chroma"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def build(matrix: np.ndarray) -> Dense:
        if request.param == "exact":
            Exact.write(tmp_path, matrix)
            return Exact.load(tmp_path)
        rows = passages(len(matrix))
        Chroma(tmp_path / "chroma", "e").sync(rows, matrix)
        return Chroma(tmp_path / "chroma", "e", [row.id for row in rows])

    return build


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


def test_chroma_holds_what_it_was_last_given(tmp_path: Path) -> None:
    chroma = Chroma(tmp_path / "chroma", "e")
    chroma.sync(passages(5), vectors(5))
    rows = [*passages(2), *passages(4, "new")]
    matrix = np.concatenate([vectors(2), vectors(4, 1)])
    chroma.sync(rows, matrix)
    assert chroma.count() == 6
    found = Chroma(tmp_path / "chroma", "e", [row.id for row in rows])
    assert found.rank(matrix[5], np.ones(6, bool), 1)[0].row == 5


def test_a_folder_left_by_a_killed_writer_is_made_anew(tmp_path: Path) -> None:
    chroma = Chroma(tmp_path / "chroma", "e")
    chroma.sync(passages(5), vectors(5))
    (tmp_path / "chroma.writing").touch()
    for file in (tmp_path / "chroma").rglob("*"):
        if file.is_file():
            file.write_bytes(b"torn")
    chroma.sync(passages(5), vectors(5))
    assert chroma.count() == 5
    assert not (tmp_path / "chroma.writing").exists()


def test_a_damaged_folder_is_made_anew_from_the_vectors(tmp_path: Path) -> None:
    chroma = Chroma(tmp_path / "chroma", "e")
    chroma.sync(passages(5), vectors(5))
    (tmp_path / "chroma" / "chroma.sqlite3").write_bytes(b"no database" * 999)
    chroma.sync(passages(5), vectors(5))
    assert chroma.count() == 5


def test_a_place_that_chroma_cannot_use_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "chroma").write_text("in the way")
    with pytest.raises(StoreError, match="Chroma failed") as caught:
        Chroma(tmp_path / "chroma", "e").sync(passages(1), vectors(1))
    assert "\n" not in str(caught.value)


def test_a_server_is_named_by_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_CHROMA", "localhost:8000")
    with pytest.raises(ConfigError, match="expected http://HOST:PORT"):
        Chroma(tmp_path / "chroma", "e").sync(passages(1), vectors(1))


def test_a_server_that_does_not_answer_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_CHROMA", "http://127.0.0.1:9")
    with pytest.raises(
        StoreError, match=r"127\.0\.0\.1:9: Chroma failed .*unset KB_CHROMA"
    ) as caught:
        Chroma(tmp_path / "chroma", "e").sync(passages(1), vectors(1))
    assert "\n" not in str(caught.value)
