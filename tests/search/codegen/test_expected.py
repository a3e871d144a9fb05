"""What is expected of recipes on a device decides which are tried, and what stays the library's."""

from dataclasses import replace
from math import inf, log

import pytest
from recipe_bench import Bench, reference

from kb.app.queries import find_target
from search.codegen.applicability import make_shop, suiting
from search.codegen.library import RecipeCard, size_of
from search.codegen.plan import distance


def test_what_was_measured_on_a_device_of_its_architecture_counts_where_nothing_was_on_it(
    cards: dict[str, RecipeCard],
) -> None:
    card = cards["gpu-matmul-split-half"]
    known = [find_target(name) for name in ("h200", "h100", "a100")]
    assert {"h200"} <= set(card.measured)
    assert "h100" not in card.measured

    def expected(name: str) -> float:
        suited = suiting(cards, find_target(name), ("triton", "cuda"), "strict", known)
        return suited[card.name].expected(name)

    assert expected("h100") == card.expected("h200") > 1
    assert expected("a100") == 1


def test_figures_of_another_device_do_not_stand_beside_those_of_this_one(
    cards: dict[str, RecipeCard],
) -> None:
    names = ("cpu-matmul-packed", "cpu-matmul-unpacked", "cpu-rows-simd")
    measured = ({"x86-amx": ((512, 1.2),)}, {"zen5": ((512, 3.0),)}, {"zen5": ((512, 3.0),)})
    few = {
        name: replace(cards[name], measured=one) for name, one in zip(names, measured, strict=True)
    }
    known = [find_target(name) for name in ("zen5", "x86-amx")]
    suited = suiting(few, find_target("x86-amx"), ("cpp",), "strict", known)
    packed, unpacked, rows = (suited[name].expected("x86-amx") for name in names)
    assert packed > unpacked == 1
    assert rows > 1  # of this pattern there is nothing else


def test_products_and_convolutions_are_likened_by_the_cube_root_of_their_work(
    cards: dict[str, RecipeCard],
) -> None:
    found = {"zen5": ((64, 0.5), (1024, 2.0))}
    few = {"cpu-matmul-packed": replace(cards["cpu-matmul-packed"], measured=found)}
    for size, wins in ((64, False), (800, True)):
        text = f"torch.randn({size}, {size})"
        source = reference("return a @ b", text, text)
        shop = make_shop(source, find_target("zen5"), Bench(source, {}).graph, few)
        (part,) = shop.cut(())
        assert (shop.expected(part, few["cpu-matmul-packed"]) > 1) is wins
    assert size_of("conv", (4, 64, 64, 56, 56)) == 372
    assert size_of("rows", (4096, 1024)) == 1024


def test_what_is_no_size_is_no_distance() -> None:
    """A run of a second operator ended where a lesson of the first had the number -1 for one of its choices."""
    known: dict[str, int | str] = {"rows": 10, "which": -1}
    assert distance(known, known | {"rows": 21}) == pytest.approx(log(2))
    assert distance(known, known | {"which": 0}) == inf


def test_what_needs_a_unit_suits_devices_that_have_it(cards: dict[str, RecipeCard]) -> None:
    tiles = {name for name, card in cards.items() if "tile_registers" in card.needs}
    assert tiles == {"cpu-matmul-amx", "cpu-conv-amx"}
    for name, has in (
        ("x86-amx", True),
        ("sapphire-rapids", True),
        ("x86-avx512", False),
        ("zen5", False),
    ):
        assert (tiles <= set(suiting(cards, find_target(name), ("cpp",)))) is has, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "recurrences"), [("", 1), (".tanh().sum(-1)", 0)], ids=["nothing else", "more"]
)
def test_a_layer_that_recipes_do_more_slowly_is_left_to_the_library_where_there_is_more_to_gain(
    after: str, recurrences: int, cards: dict[str, RecipeCard]
) -> None:
    source = reference(
        f"return self.r(a)[0]{after}", "torch.randn(9, 10, 8)", init="self.r = nn.GRU(8, 1024)"
    )
    target, known = find_target("h100"), [find_target(name) for name in ("h200", "h100")]
    suited = suiting(cards, target, ("triton", "cuda"), "strict", known)
    shop = make_shop(source, target, Bench(source, {}).graph, suited)
    parts = shop.cut(shop.base())
    assert [part.pattern for part in parts].count("recurrence") == recurrences
    small = source.replace("1024", "256")
    shop = make_shop(small, target, Bench(small, {}).graph, suited)
    (part,) = (part for part in shop.cut(shop.base()) if part.pattern == "recurrence")
    assert shop.recipes(part)[0].name == "gpu-recurrence-cluster"
