"""Recurrent layers, in all three languages: their input's products are done for all steps at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from cuda_on_cpu import load_on_cpu
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard, Value
from search.codegen.plan import Choice

N = "torch.randn"
GRAPHS = {
    "an LSTM": reference("return self.r(a)[0]", f"{N}(5, 3, 7)", init="self.r = nn.LSTM(7, 21)"),
    "a GRU of two layers, batches first": reference(
        "return self.r(a)[0][:, -1] * 2", f"{N}(9, 6, 8)", init="self.r = nn.GRU(8, 35, 2, batch_first=True)"
    ),
    "both directions and the last states": reference(
        "y, h = self.r(a)\nreturn y * 2, h", f"{N}(6, 2, 5)", init="self.r = nn.GRU(5, 16, bidirectional=True)"
    ),
    "a plain one from given states": reference(
        "return self.r(a, b)[0]", f"{N}(4, 20, 6)", f"{N}(1, 20, 18)",
        init="self.r = nn.RNN(6, 18, nonlinearity='relu', bias=False)",
    ),
    "an LSTM from given states, then a layer": reference(
        "y, _ = self.r(a, (b, c))\nreturn self.l(torch.tanh(y))", f"{N}(3, 4, 6)", f"{N}(1, 3, 10)", f"{N}(1, 3, 10)",
        init="self.r = nn.LSTM(6, 10, batch_first=True)\nself.l = nn.Linear(10, 3)",
    ),
    "an LSTM's outputs and last cells": reference(
        "y, (h, c) = self.r(a)\nreturn y, h, c", f"{N}(4, 3, 6)",
        init="self.r = nn.LSTM(6, 19, 2, batch_first=True, bidirectional=True)",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_recurrences_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    # The others differ in the recipe of their products, which `test_matmul_templates.py` has.
    found = three_languages.cpp(GRAPHS[name], cards, most=1)
    assert all("cpu-recurrence" in recipes for recipes in found)
    assert three_languages.right(found), found


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_recurrences_are_right_in_cuda(
    name: str, cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    found = three_languages.cuda(GRAPHS[name], cards, tmp_path)
    assert three_languages.right(found), found


@pytest.mark.slow
def test_recurrences_are_right_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        assert three_languages.right(found, 1e-6), (name, found)


def test_the_inputs_product_is_a_part_of_its_own(cards: dict[str, RecipeCard]) -> None:
    parts = Bench(GRAPHS["an LSTM"], cards).parts()
    assert [part.pattern for part in parts] == ["matmul", "recurrence"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "knobs",
    [{"cluster": 16, "rows": 0, "lanes": 8}, {"cluster": 8, "rows": 4, "lanes": 8},
     {"cluster": 8, "rows": 1, "lanes": 16}, {"cluster": 16, "rows": 16, "lanes": 32}],
)  # fmt: skip
@pytest.mark.parametrize("layer", ["nn.LSTM(4, 70)", "nn.GRU(4, 70, bidirectional=True)"])
def test_blocks_of_a_cluster_send_each_other_the_state(
    layer: str, knobs: dict[str, Value], cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    source = reference("return self.r(a)[0]", f"{N}(5, 3, 4)", init=f"self.r = {layer}")
    shop = three_languages.workshop(Bench(source, {}), cards, "cuda")
    choice = Choice(recipe="gpu-recurrence-cluster", knobs=knobs)
    parts = [part for part in shop.cut(shop.anchors) if part.pattern == "recurrence"]
    text = shop.source(shop.complete(shop.anchors, {part.id: choice for part in parts}))
    assert text.count("cluster_send<V>(") == len(parts) > 0
    errors = Bench(source, {}).errors_of(load_on_cpu(text, tmp_path))
    assert three_languages.right({"cluster": errors}), errors


@pytest.mark.slow
def test_weights_beyond_the_registers_are_in_shared_memory(
    cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    source = reference("return self.r(a)[0]", f"{N}(3, 1, 4)", init="self.r = nn.LSTM(4, 400)")
    shop = three_languages.workshop(Bench(source, {}), cards, "cuda")
    (part,) = (part for part in shop.cut(shop.anchors) if part.pattern == "recurrence")
    choice = Choice(recipe="gpu-recurrence-cluster", knobs={"cluster": 16, "rows": 0, "lanes": 8})
    text = shop.source(shop.complete(shop.anchors, {part.id: choice}))
    assert "extern __shared__ f4 rest[];" in text
    assert "shared=" in text
    errors = Bench(source, {}).errors_of(load_on_cpu(text, tmp_path))
    assert three_languages.right({"cluster": errors}), errors


def test_what_is_not_written_out_stays_a_call(cards: dict[str, RecipeCard]) -> None:
    layer = "self.r = nn.LSTM(7, 8, proj_size=3)"
    parts = Bench(reference("return self.r(a)[0]", f"{N}(5, 3, 7)", init=layer), cards).parts()
    assert "recurrence" not in [part.pattern for part in parts]


def test_without_a_recipe_the_layer_stays_a_call(cards: dict[str, RecipeCard]) -> None:
    bench = Bench(GRAPHS["an LSTM"], {})
    rest = {name: card for name, card in cards.items() if card.pattern != "recurrence"}
    shop = three_languages.workshop(bench, rest, "cpp")
    assert "torch.ops.aten.lstm.input" in shop.source(shop.complete(shop.anchors, {}))
