"""What is expected of recipes on a device decides which are tried, and what stays the library's."""

import pytest
from recipe_bench import Bench, reference

from kb.app.queries import find_target
from search.codegen.applicability import make_shop, suiting
from search.codegen.library import RecipeCard


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
