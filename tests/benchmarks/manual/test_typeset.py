"""Real documentation, made into a manual and read back: every heading on its page, every listing whole."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.manual.typeset import Placed, typeset
from ingest.chunking.split import split
from ingest.document import read_document
from ingest.readers import ParsedFile
from kb.tokens import count_tokens


def documents() -> list[ParsedFile]:
    """Return the descriptions of data sets that scikit-learn carries, in reStructuredText."""
    spec = find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "datasets" / "descr"
    return [read_document(path.read_bytes(), path.name) for path in sorted(folder.glob("*.rst"))]


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> tuple[ParsedFile, list[Placed], int]:
    path = tmp_path_factory.mktemp("manual") / "manual.pdf"
    placed, pages = typeset(documents(), path, "Data Sets of a Library")
    return read_document(path.read_bytes(), path.name), placed, pages


@pytest.mark.slow
def test_every_heading_is_found_on_the_page_that_it_was_typeset_on(
    manual: tuple[ParsedFile, list[Placed], int],
) -> None:
    reading, placed, pages = manual
    assert pages > 15
    starts = {one.trail: one.page for one in placed}
    assert len(starts) > 10
    sections = {one.trail[1:]: one for one in reading.sections}
    with_text = {one.trail for document in documents() for one in document.sections}
    for trail in with_text:
        first = sections[trail].blocks[0]
        assert first.page is not None
        assert 0 <= first.page - starts[trail] <= 1


def test_margins_are_dropped_and_words_are_kept(
    manual: tuple[ParsedFile, list[Placed], int],
) -> None:
    reading, _, pages = manual
    text = " ".join(block.text for one in reading.sections for block in one.blocks)
    assert "Rev. 1.0" not in text
    assert f"|  {pages}" not in text
    told = " ".join(block.text for one in documents() for s in one.sections for block in s.blocks)
    letters = sum(map(str.isalnum, told))
    assert abs(sum(map(str.isalnum, text)) - letters) < 0.02 * letters


def test_passages_of_a_manual_know_their_pages(
    manual: tuple[ParsedFile, list[Placed], int],
) -> None:
    reading, _, pages = manual
    pieces = split(reading.sections, count_tokens)
    for piece in pieces:
        assert piece.pages is not None
        assert 1 <= piece.pages[0] <= piece.pages[1] <= pages
