from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import Engine

from kb.database import create_tables
from kb.records.schema import IdeaRecord, parse_record
from kb.records.types import Scope
from kb.store.documents import NewDocument, Piece, Store

IDEA = """---
kind: idea
title: Pad the tile
category: memory access
scope: {vendor: [nvidia]}
symptoms: [bank-conflicts]
recipe: {pattern: rows, knobs: {pad: {choices: [1, 4]}, rows: {low: 1, high: 8, default: 2}}}
---
Add a column.
"""


@pytest.fixture
def store(engine: Engine) -> Store:
    create_tables(engine)
    return Store(engine)


def entry(key: str, *texts: str, digest: str = "1", name: str = "a") -> NewDocument:
    pieces = tuple(Piece(section="A > B", text=text, tokens=len(text)) for text in texts)
    return NewDocument(
        key=key,
        shown=key,
        digest=digest,
        kind="document",
        name=name,
        title="A",
        body="\n".join(texts),
        pieces=pieces,
        scope=Scope(vendor=("nvidia",)),
        symptoms=("bank-conflicts",),
    )


def embed_all(store: Store, embedder: str = "e") -> None:
    pending = list(store.pending(embedder))
    store.put_vectors(embedder, pending, np.ones((len(pending), 2), np.float32))


def test_a_document_comes_back_as_its_passages(store: Store) -> None:
    assert store.put(entry("k", "one", "two"))
    embed_all(store)
    passages = store.pages(["k"])["k"]
    assert [passage.text for passage in passages] == ["one", "two"]
    one = passages[0]
    assert (one.document, one.section, one.tokens) == ("k", "A > B", 3)
    assert one.scope == Scope(vendor=("nvidia",))
    assert one.symptoms == ("bank-conflicts",)
    assert store.passages([one.id, "gone"]) == {one.id: one}


def test_the_same_bytes_change_nothing(store: Store) -> None:
    store.put(entry("k", "one"))
    before = store.generation()
    assert not store.put(entry("k", "one"))
    assert store.generation() == before


def test_another_version_replaces_the_passages_and_changes_the_generation(store: Store) -> None:
    store.put(entry("k", "one", "two"))
    before = store.generation()
    store.put(entry("k", "two", "three", digest="2"))
    assert [passage.text for passage in store.pages(["k"])["k"]] == ["two", "three"]
    assert store.generation() != before
    assert store.stats()["documents"] == 1


def test_the_same_words_twice_in_a_section_are_one_passage(store: Store) -> None:
    store.put(entry("k", "same", "same"))
    assert store.stats()["passages"] == 1


def test_only_texts_without_a_vector_are_pending(store: Store) -> None:
    store.put(entry("k", "one"))
    embed_all(store)
    store.put(entry("l", "one", "two"))
    assert list(store.pending("e").values()) == ["A > B\ntwo"]
    assert len(store.pending("another embedder")) == 2
    assert store.stats()["pending"] == 1
    embed_all(store)
    assert store.stats()["pending"] == 0


def test_a_vector_lives_as_long_as_a_passage_has_its_text(store: Store) -> None:
    store.put(entry("k", "one"))
    store.put(entry("l", "one"))
    embed_all(store)
    store.remove(["k"])
    store.drop_unused_vectors()
    assert store.stats()["pending"] == 0
    store.remove(["l"])
    store.drop_unused_vectors()
    store.put(entry("k", "one"))
    assert store.pending("e")


def test_vectors_come_back_as_they_went_in(store: Store) -> None:
    store.put(entry("k", "one", "two", "three"))
    rng = np.random.default_rng(0)
    sent = {key: rng.standard_normal(5).astype(np.float32) for key in store.pending("e")}
    store.put_vectors("e", list(sent), np.stack(list(sent.values())))
    contents, found = store.vectors("e", "k")
    assert {key: tuple(row) for key, row in zip(contents, found, strict=True)} == {
        key: tuple(row) for key, row in sent.items()
    }


def test_a_record_comes_back_whole(store: Store) -> None:
    document = parse_record(IDEA, "pad.md")
    record = document.record.model_dump(mode="json")
    one = entry("kb:pad.md", "x", name="pad")
    store.put(
        NewDocument(
            key=one.key,
            shown=one.shown,
            digest="1",
            kind="idea",
            name="pad",
            title="Pad the tile",
            body=document.body,
            record=record,
        )
    )
    found = store.document("idea", "pad")
    assert found is not None
    assert isinstance(found.record, IdeaRecord)
    assert found.record == document.record
    assert found.body == "Add a column.\n"
    assert store.documents("idea") == [found]
    assert store.document("idea", "other") is None
    assert store.documents("lesson") == []


def test_a_prefix_is_taken_literally(store: Store) -> None:
    store.put(entry("a_b/x", "one"))
    store.put(entry("aXb/x", "two"))
    assert list(store.manifest("a_b/")) == ["a_b/x"]


def test_more_keys_than_a_statement_takes_are_removed(store: Store) -> None:
    keys = [f"k{number}" for number in range(1200)]
    store.put(entry("k7", "one"))
    store.put(entry("k1100", "two"))
    store.put(entry("stays", "three"))
    store.remove(keys)
    assert list(store.manifest()) == ["stays"]


@pytest.mark.parametrize("keys", [[], ["unknown"]])
def test_removing_nothing_is_no_error(store: Store, keys: list[str]) -> None:
    store.remove(keys)
    assert store.stats() == {"documents": 0, "passages": 0, "tokens": 0, "pending": 0}
