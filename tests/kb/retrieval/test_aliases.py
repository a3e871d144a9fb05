from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kb.config import Home
from kb.indexes import Ranked
from kb.knowledge import Knowledge, open_knowledge
from kb.records.types import Hit, Query, Scope
from kb.retrieval.aliases import find_asked
from kb.store.aliases import asked_identity, speaks_for

PAD = """---
kind: idea
title: Pad the tile by a column
category: memory access
scope: {{vendor: [nvidia]}}
{asked}---
## Why lanes wait

Shared memory has 32 banks of four bytes. Threads of a warp that ask for different words of one
bank are served one after the other, and a column of a square tile lies in a single bank, so that
its 32 threads take 32 turns.

## What to write

Declare `__shared__ float tile[32][33];` and index it as before. Each row then begins one bank
further than the row above, and a column lies in 32 different banks. The price is 128 bytes a tile
and rows that are no longer aligned to sixteen bytes.
"""
ASKED = """asked:
  Why lanes wait:
    - tachyon hiccups in the flux capacitor
  What to write:
    - quux frobnication recipe
"""
OTHER = """---
kind: guide
title: Softmax without overflow
---
## Subtract the largest value first

Exponentials overflow for large inputs: subtract the maximum of the row before exponentiating.
"""
MODES = ("bm25", "dense", "hybrid")


def corpus(folder: Path, asked: str = ASKED) -> Path:
    for name, text in {
        "ideas/pad.md": PAD.format(asked=asked),
        "guidance/softmax.md": OTHER,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def asked_for(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    folder = corpus(tmp_path_factory.mktemp("corpus"))
    return open_knowledge(Home(tmp_path_factory.mktemp("home")), shipped=folder)


def search(knowledge: Knowledge, text: str, **options: Any) -> list[Hit]:
    return knowledge.retriever.search(Query(text=text, **options))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("question", "heading"),
    [
        ("tachyon hiccups in a flux capacitor", "Why lanes wait"),
        ("quux frobnication", "What to write"),
    ],
)
def test_a_passage_is_found_by_words_that_only_its_front_matter_has(
    mode: str, question: str, heading: str, asked_for: Knowledge
) -> None:
    hit = search(asked_for, question, mode=mode, limit=1)[0]
    assert hit.passage.section == f"Pad the tile by a column > {heading}"
    assert "tachyon" not in hit.passage.text
    assert "quux" not in hit.passage.text


@pytest.mark.parametrize("mode", MODES)
def test_other_words_are_never_quoted(mode: str, asked_for: Knowledge) -> None:
    hits = search(asked_for, "tachyon quux tile softmax", mode=mode, limit=10)
    assert all(speaks_for(hit.passage.id) is None for hit in hits)
    assert len({hit.passage.id for hit in hits}) == len(hits)


def test_other_words_are_found_where_their_passage_applies(asked_for: Knowledge) -> None:
    question = "quux frobnication"
    (inside,) = search(asked_for, question, scope=Scope(vendor=("nvidia",)), limit=1)
    assert (inside.passage.document, inside.widened) == ("kb:ideas/pad.md", False)
    hits = search(asked_for, question, scope=Scope(vendor=("amd",)), limit=5)
    assert {hit.passage.document for hit in hits if not hit.widened} <= {"kb:guidance/softmax.md"}
    assert search(asked_for, question, kinds=("guide",), limit=5) != hits
    assert {hit.passage.kind for hit in search(asked_for, question, kinds=("guide",))} <= {"guide"}


def test_other_words_count_among_no_passages(asked_for: Knowledge) -> None:
    stats = asked_for.store.stats()
    rows = asked_for.derived.current().ids
    assert stats["passages"] == len([one for one in rows if speaks_for(one) is None]) == 3
    assert len(rows) == 5
    assert stats["pending"] == 0


@pytest.mark.slow
def test_new_words_embed_nothing_else_again(tmp_path: Path) -> None:
    folder, home = corpus(tmp_path / "docs"), Home(tmp_path / "home")
    before = open_knowledge(home, shipped=folder)
    ids = set(before.derived.current().ids)
    (folder / "ideas/pad.md").write_text(PAD.format(asked=ASKED.replace("quux", "xyzzy")))
    after = open_knowledge(home, shipped=folder)
    now = set(after.derived.current().ids)
    assert [speaks_for(one) is None for one in (ids ^ now)] == [False, False]
    assert search(after, "xyzzy", mode="bm25")[0].passage.section.endswith("What to write")
    assert search(after, "quux", mode="bm25") == []


def identities(*names: str) -> Any:
    return SimpleNamespace(
        ids=SimpleNamespace(array=np.array(names, np.bytes_)),
        sources=(SimpleNamespace(shown="a"), SimpleNamespace(shown="b")),
        source_of=np.array([0] * (len(names) - 1) + [1], np.int32),
    )


def test_a_ranking_is_folded_to_each_passages_best_place() -> None:
    one, two, far = "1" * 32, "2" * 32, "f" * 32
    asked = find_asked(
        identities(one, asked_identity(one, "a" * 32), asked_identity(two, "b" * 32), two, far)
    )
    ranked = [Ranked(2, 0.9), Ranked(4, 0.8), Ranked(1, 0.7), Ranked(3, 0.6), Ranked(0, 0.5)]
    assert asked.folded(ranked, 3) == [Ranked(3, 0.9), Ranked(4, 0.8), Ranked(0, 0.7)]
    assert asked.folded(ranked, 1) == [Ranked(3, 0.9)]
    among = np.array([False, False, False, True, True])
    assert asked.widened(among).tolist() == [False, False, True, True, True]
    assert asked.apart(np.ones(5, bool)).tolist() == [True, False, False, True, True]


def test_words_whose_passage_is_gone_find_nothing() -> None:
    one, gone = "1" * 32, "9" * 32
    asked = find_asked(identities(one, asked_identity(gone, "a" * 32)))
    assert asked.lost.tolist() == [1]
    assert asked.apart(np.ones(2, bool)).tolist() == [True, False]
    assert asked.widened(np.array([True, False])).tolist() == [True, False]


def test_an_index_without_other_words_is_left_as_it_is() -> None:
    asked = find_asked(identities("1" * 32, "2" * 32))
    among = np.array([True, False])
    assert asked.widened(among) is among
    assert asked.apart(among) is among
    assert asked.depth(7) == 7
    assert asked.folded([Ranked(1, 0.5), Ranked(0, 0.4)], 1) == [Ranked(1, 0.5)]
