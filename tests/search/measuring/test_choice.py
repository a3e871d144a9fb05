"""Every idea with a recipe has five tasks and more that its recipe renders, on the devices it is for."""

from __future__ import annotations

import ast

import pytest

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import TargetRecord
from search.codegen.library import make_cards
from search.measuring.choice import Pair, Shops, by_task, choose
from search.measuring.single_idea import renderings
from search.measuring.tables import KINDS, load_tables

CARDS = make_cards(load_library(shipped_docs() / "ideas"))


def target(name: str) -> TargetRecord:
    for document in load_library(shipped_docs() / "targets"):
        if isinstance(document.record, TargetRecord) and document.record.name == name:
            return document.record
    raise AssertionError(name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "prefix"), [("x86-amx", "cpu-"), ("h200", "gpu-")])
def test_every_recipe_renders_five_tasks(name: str, prefix: str) -> None:
    record = target(name)
    shops = Shops(CARDS, record)
    tables = load_tables("gpu" if record.device == "gpu" else "cpu")
    suiting = shops.suiting()
    own = (name for name, card in CARDS.items() if card.renders)
    assert set(suiting) == {name for name in own if name.startswith(prefix)}
    for card in suiting.values():
        shapes = choose(card, tables, shops, 5)
        assert len({shape.name for shape in shapes}) == 5, card.name
        assert len({shape.kind for shape in shapes}) >= 4, card.name
        for shape in shapes:
            first = next(renderings(shops.shop(shape), card))
            ast.parse(first.source)
            used = {part["recipe"] for part in first.plan["segments"].values()}
            assert card.template is None or used == {card.name}


@pytest.mark.slow
def test_shapes_of_all_kinds_come_before_a_second_of_one() -> None:
    shops = Shops(CARDS, target("zen4"))
    tables = load_tables("cpu")
    shapes = choose(CARDS["cpu-softmax-online"], tables, shops, 6)
    assert [shape.kind for shape in shapes[:5]] == list(KINDS)
    assert shapes[:3] == choose(CARDS["cpu-softmax-online"], tables, shops, 3)


@pytest.mark.slow
def test_an_idea_that_needs_a_shorter_type_is_measured_where_the_task_allows_it() -> None:
    shops = Shops(CARDS, target("h200"))
    shapes = choose(CARDS["gpu-matmul-scaled-half"], load_tables("gpu"), shops, 5)
    assert {shape.reference.precision for shape in shapes} == {"tf32"}


def test_ideas_that_share_a_task_are_measured_together() -> None:
    shops = Shops(CARDS, target("zen4"))
    tables = load_tables("cpu")
    cards = [CARDS["cpu-pointwise-fused"], CARDS["cpu-pointwise-streaming-stores"]]
    pairs = [Pair(card=card, shape=s) for card in cards for s in choose(card, tables, shops, 5)]
    assert [len(group) for group in by_task(pairs).values()] == [2] * 5
