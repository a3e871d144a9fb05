from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kb.indexes.bm25 import Bm25, matched_text
from kb.records.types import Passage
from kb.words import split_words

TEXTS = (
    "Lanes that meet in one bank of shared memory wait.",
    "float4 loads move sixteen bytes",
    "loadTile4(x) fetches a tile into shared memory, shared by the block",
    "",
)


def passage(row: int, text: str, symptoms: tuple[str, ...] = ()) -> Passage:
    return Passage(
        id=str(row),
        document="d",
        section="Title",
        kind="document",
        text=text,
        tokens=1,
        symptoms=symptoms,
    )


PASSAGES = [passage(row, text) for row, text in enumerate(TEXTS)]
ALL = np.ones(len(TEXTS), bool)


@pytest.fixture
def index(tmp_path: Path) -> Bm25:
    Bm25.write(tmp_path, PASSAGES)
    return Bm25.load(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what bm25s imports
@pytest.mark.parametrize("question", ["shared memory", "shared shared tile", "tile", "float4"])
def test_scores_are_those_of_bm25s(index: Bm25, question: str) -> None:
    import bm25s

    model = bm25s.BM25(method="lucene")
    model.index(
        [split_words(matched_text(one.section, one.symptoms, one.text)) for one in PASSAGES],
        show_progress=False,
    )
    expected = model.get_scores(split_words(question))
    assert index.scores(question) == pytest.approx(expected, rel=1e-5)


def test_a_part_of_an_identifier_finds_it(index: Bm25) -> None:
    assert index.rank("load tiles", ALL, 5)[0].row == 2


def test_passages_without_a_shared_word_are_not_ranked(index: Bm25) -> None:
    assert index.rank("convolution", ALL, 5) == []
    assert index.rank("??", ALL, 5) == []


def test_a_filter_leaves_rows_out(index: Bm25) -> None:
    among = np.array([False, True, True, True])
    assert [one.row for one in index.rank("shared memory", among, 5)] == [2]


def test_a_symptom_of_the_document_matches(tmp_path: Path) -> None:
    Bm25.write(tmp_path, [passage(0, "Pad the tile", ("bank-conflicts",)), passage(1, "Other")])
    assert [one.row for one in Bm25.load(tmp_path).rank("bank conflict", np.ones(2, bool), 5)] == [
        0
    ]


def test_an_index_of_nothing_finds_nothing(tmp_path: Path) -> None:
    Bm25.write(tmp_path, [])
    assert Bm25.load(tmp_path).rank("shared", np.zeros(0, bool), 5) == []
