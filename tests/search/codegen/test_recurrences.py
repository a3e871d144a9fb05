"""Recurrent layers, in all three languages: their input's products are done for all steps at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard

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
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_recurrences_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards)
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


@pytest.mark.parametrize(
    ("body", "init"),
    [("y, (h, c) = self.r(a)\nreturn y, c", "self.r = nn.LSTM(7, 8)"),
     ("return self.r(a)[0]", "self.r = nn.LSTM(7, 8, proj_size=3)")],
)  # fmt: skip
def test_what_is_not_written_out_stays_a_call(
    body: str, init: str, cards: dict[str, RecipeCard]
) -> None:
    parts = Bench(reference(body, f"{N}(5, 3, 7)", init=init), cards).parts()
    assert "recurrence" not in [part.pattern for part in parts]


def test_without_a_recipe_the_layer_stays_a_call(cards: dict[str, RecipeCard]) -> None:
    bench = Bench(GRAPHS["an LSTM"], {})
    rest = {name: card for name, card in cards.items() if card.pattern != "recurrence"}
    shop = three_languages.workshop(bench, rest, "cpp")
    assert "torch.ops.aten.lstm.input" in shop.source(shop.complete(shop.anchors, {}))
