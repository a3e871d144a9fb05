from __future__ import annotations

from dataclasses import replace

import numpy as np

from kb.records.types import Scope
from kb.store.diff import DocumentChange, compare
from kb.store.documents import Store
from kb.store.tables import NewDocument, Piece


def entry(digest: str, *sections: tuple[str, str]) -> NewDocument:
    pieces = tuple(
        Piece(section=section, text=text, tokens=1, pages=(number, number))
        for number, (section, text) in enumerate(sections, start=1)
    )
    return NewDocument(
        key="k",
        shown="k",
        digest=digest,
        kind="document",
        name="k",
        title="K",
        body="",
        pieces=pieces,
    )


def test_what_became_of_passages_is_told_by_their_headings() -> None:
    change = compare(
        [("1", "A"), ("2", "A"), ("3", "B"), ("4", "C")],
        [("1", "A"), ("5", "A"), ("6", "A"), ("7", "D"), ("3", "B")],
    )
    assert change == DocumentChange(new=2, changed=1, kept=2, removed=1)
    assert change.line() == "2 new, 1 changed, 2 unchanged, 1 removed"


def test_a_changed_page_leaves_the_vectors_of_the_others(store: Store) -> None:
    store.put(entry("1", ("A", "one"), ("B", "two"), ("C", "three")))
    pending = list(store.pending("e"))
    store.put_vectors("e", pending, np.ones((3, 2), np.float32))
    change = store.put(entry("2", ("A", "one"), ("B", "other"), ("C", "three")))
    assert change == DocumentChange(changed=1, kept=2)
    assert list(store.pending("e").values()) == ["B\nother"]


def test_a_page_put_in_front_moves_the_pages_of_the_others_and_embeds_only_itself(
    store: Store,
) -> None:
    store.put(entry("1", ("A", "one"), ("B", "two")))
    store.put_vectors("e", list(store.pending("e")), np.ones((2, 2), np.float32))
    before = store.generation()
    assert store.put(entry("2", ("0", "zero"), ("A", "one"), ("B", "two"))) == DocumentChange(
        new=1, kept=2
    )
    assert list(store.pending("e").values()) == ["0\nzero"]
    pages = {one.text: one.pages for one in store.pages(["k"])["k"]}
    assert pages == {"zero": (1, 1), "one": (2, 2), "two": (3, 3)}
    assert store.generation() != before


def test_other_bytes_with_the_same_passages_make_no_new_index(store: Store) -> None:
    store.put(entry("1", ("A", "one")))
    before = store.generation()
    assert store.put(entry("2", ("A", "one"))) == DocumentChange(kept=1)
    assert store.generation() == before
    assert store.manifest()["k"][0] == "2"


def test_another_scope_is_seen_without_new_vectors(store: Store) -> None:
    store.put(entry("1", ("A", "one")))
    store.put_vectors("e", list(store.pending("e")), np.ones((1, 2), np.float32))
    store.put(replace(entry("2", ("A", "one")), scope=Scope(vendor=("amd",))))
    (passage,) = store.pages(["k"])["k"]
    assert passage.scope.vendor == ("amd",)
    assert store.pending("e") == {}
