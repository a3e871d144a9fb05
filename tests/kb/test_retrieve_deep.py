from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kb.config import Home, shipped_docs
from kb.knowledge import Knowledge, open_knowledge
from kb.retrieve_deep import read_contents
from kb.retrieve_fuse import Candidate, with_reach
from kb.types import Hit, Query, Scope

INDEX = """# What is known

## Ideas by category

- [Memory access](modules/memory.md) (2 records): shared memory, banks, loads
- [Compute](modules/compute.md) (1 record): registers and blocking
"""
PAGES = {
    "modules/memory.md": """# Ideas by category: Memory access

[Index](../index.md).

- [pad-shared-memory](../ideas/pad-shared-memory.md): Pad shared memory; answers bank-conflicts
- [vector-loads](../ideas/vector-loads.md): Load sixteen bytes at a time
""",
    "modules/compute.md": """# Ideas by category: Compute

- [block-registers](../ideas/block-registers.md): Keep a tile of the output in registers
""",
}
NOTE = """---
kind: guide
title: When lanes queue
---
## What to do

Lanes queue at one bank. See `block-registers`, which needs no shared memory at all.
"""


@pytest.fixture(scope="module")
def library(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    shutil.copytree(corpus, folder, dirs_exist_ok=True)
    pages = {"index.md": INDEX, **PAGES, "guidance/queue.md": NOTE}
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def deep(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    return open_knowledge(Home(tmp_path_factory.mktemp("home")), shipped=library)


def by_document(hits: list[Hit]) -> dict[str, Hit]:
    found: dict[str, Hit] = {}
    for hit in hits:
        found.setdefault(hit.passage.document, hit)
    return found


def test_the_index_is_read_into_modules_with_their_records(library: Path) -> None:
    memory, compute = read_contents(library, "kb")
    assert memory.title == "Ideas by category: Memory access"
    assert memory.documents == {"kb:ideas/pad-shared-memory.md", "kb:ideas/vector-loads.md"}
    assert compute.documents == {"kb:ideas/block-registers.md"}
    assert {"bank", "load"} <= memory.words.keys()


def test_the_shipped_index_leads_to_every_idea() -> None:
    modules = read_contents(shipped_docs(), "kb")
    reached = {name for module in modules for name in module.documents}
    ideas = {f"kb:ideas/{path.name}" for path in (shipped_docs() / "ideas").glob("*.md")}
    assert ideas <= reached
    assert max(len(module.documents) for module in modules) < len(reached)


def test_a_library_without_an_index_has_no_modules(tmp_path: Path) -> None:
    assert read_contents(tmp_path, "kb") == ()


def test_every_passage_says_how_deep_search_came_to_it(deep: Knowledge) -> None:
    query = Query(text="lanes of a warp hit the same bank", symptoms=("bank-conflicts",), hops=1)
    hits = by_document(deep.retriever.search(query))
    trail = hits["kb:ideas/pad-shared-memory.md"].why.trail
    assert trail[0] == "index: Ideas by category: Memory access is choice 1 for the question"
    assert trail[1].startswith("module: place 1")
    assert "deep" in hits["kb:ideas/pad-shared-memory.md"].why.ranks
    assert hits["kb:ideas/pad-shared-memory.md"].why.ranks["deep"] == 1


def test_references_are_followed_within_the_hops(deep: Knowledge) -> None:
    def trail(hops: int) -> tuple[str, ...]:
        text = "lanes queue at one bank of shared memory; bandwidth of the toy accelerator"
        hits = deep.retriever.search(Query(text=text, hops=hops, limit=20))
        return by_document(hits)["kb:ideas/block-registers.md"].why.trail

    # Its own module is the fourth choice, and three are searched.
    assert trail(0) == trail(1) == ()
    assert trail(2)[-1] == "reference: kb:guidance/queue.md names it"


def test_deep_search_stays_in_scope(deep: Knowledge) -> None:
    scope = Scope(language=("cpp",))
    query = Query(text="lanes of a warp hit the same bank", scope=scope, hops=3)
    for hit in deep.retriever.search(query):
        assert not hit.why.trail or hit.passage.scope.admits(scope)


def test_deep_search_leaves_nothing_to_chance(deep: Knowledge) -> None:
    query = Query(text="memory", symptoms=("memory-bound", "bank-conflicts"), hops=2)
    assert deep.retriever.search(query) == deep.retriever.search(query)


def test_deep_search_gets_the_last_part_of_the_places_and_no_more() -> None:
    def candidate(row: int, place: int | None = None) -> Candidate:
        ranks = {"bm25": row + 1} | ({"deep": place} if place else {})
        return Candidate(row=row, ranks=ranks, fused=1 / (row + 1), score=1 / (row + 1))

    deep = {0: 1, 20: 2, 30: 3, 25: 4}
    found = [candidate(row, deep.get(row)) for row in range(40)]
    order = [one.row for one in with_reach(found, 8)]
    assert order[:8] == [0, 1, 2, 3, 4, 5, 20, 30]
    assert order[8:] == [row for row in range(6, 40) if row not in (20, 30)]
    assert with_reach(found[:20], 8) == found[:20]
