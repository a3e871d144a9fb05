from __future__ import annotations

from kb.retrieval.fusion import Rankings, together


class View:
    """Rows by the document that each belongs to."""

    def __init__(self, documents: list[str]) -> None:
        self._documents = documents

    def document(self, row: int) -> str:
        return self._documents[row]

    def size(self, row: int) -> int:
        return self._documents.count(self._documents[row])


def test_a_document_of_one_passage_counts_as_if_all_its_parts_said_it() -> None:
    view = View(["note", "page", "page", "page"])
    ranked = together(view, Rankings(places={"bm25": {0: 1, 1: 2, 2: 3, 3: 4}}))  # type: ignore[arg-type]
    assert ranked.places["document"] == {0: 1, 1: 2, 2: 2, 3: 2}


def test_a_document_of_which_several_passages_are_found_is_before_one_with_a_single_hit() -> None:
    view = View(["page", "manual", "manual", "manual", "page", "page"])
    ranked = together(view, Rankings(places={"bm25": {0: 1, 1: 2, 2: 3, 3: 4}}))  # type: ignore[arg-type]
    assert ranked.places["document"] == {0: 2, 1: 1, 2: 1, 3: 1}
