from __future__ import annotations

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import Document
from kb.records.types import Hit, Passage, Scope
from kb.retrieval.multi_query import Inquiry
from kb.retrieval.multi_query.menu import TITLES, Menu, gained

LIBRARY = load_library(shipped_docs())
HERE = Inquiry(
    questions=(),
    scope=Scope(language=("cpp",), dtype=("float32",)),
    families=("softmax",),
    menu="cpu",
)


class Library:
    def documents(self, kind: str) -> list[Document]:
        return [one for one in LIBRARY if one.record.kind == kind]


def record(name: str) -> Document:
    return next(one for one in LIBRARY if one.name == name)


def quoted(name: str) -> Hit:
    path = record(name).path
    passage = Passage(id=name, document=path, section="", kind="idea", text="", tokens=1)
    return Hit(passage=passage, score=1.0, dense_rank=None, lexical_rank=None)


def test_titles_are_of_what_is_in_scope_and_not_quoted() -> None:
    names = [one.name for one in Menu(Library()).entries(HERE, (), [quoted("online-softmax")])]
    assert "cpu-softmax-online" in names
    assert "online-softmax" not in names
    assert "gpu-softmax-online" not in names
    assert "cpu-conv-direct" not in names
    assert len(names) <= TITLES


def test_what_is_near_comes_first() -> None:
    near = [record("reciprocal-once-per-row").path]
    first = Menu(Library()).entries(HERE, near, ())[0]
    assert first.name == "reciprocal-once-per-row"


def test_a_title_says_what_was_measured_on_such_devices_and_nothing_where_nothing_was() -> None:
    measured = record("cpu-rows-simd")
    assert "median of" in gained(measured, frozenset({"zen4", "zen5"}))
    assert gained(measured, frozenset({"h200"})) == ""
    assert gained(record("variance-from-squares"), frozenset({"zen4"})) == "usually loses"
