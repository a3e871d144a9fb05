"""Losses as kernels, in all three languages."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard

N = "torch.randn"
PAIR = (f"{N}(9, 33)", f"{N}(9, 33)")
SIGNS = "torch.randint(0, 2, {}) * 2.0 - 1"
GRAPHS = {
    "margins of signs": reference(
        "return F.soft_margin_loss(a, b) + F.hinge_embedding_loss(a, b, margin=0.7)",
        f"{N}(9, 33)",
        SIGNS.format("(9, 33)"),
    ),
    "ranking": reference(
        "return F.margin_ranking_loss(a, b, c, margin=0.3)", *PAIR, SIGNS.format("(9, 33)")
    ),
    "counts": reference(
        "return F.poisson_nll_loss(a, b) + F.poisson_nll_loss(b + 1, b, log_input=False, reduction='sum')",
        f"{N}(9, 33)",
        "torch.rand(9, 33) * 5",
    ),
    "similarity of pairs": reference(
        "return F.cosine_embedding_loss(a, b, c, margin=0.1)", *PAIR, SIGNS.format("(9,)")
    ),
    "weighted chances": reference(
        "return F.binary_cross_entropy_with_logits(a, torch.sigmoid(b), weight=c, pos_weight=self.w)"
        " + F.binary_cross_entropy(torch.sigmoid(a), torch.sigmoid(b), weight=c)",
        *PAIR,
        "torch.rand(9, 33)",
        init="self.w = nn.Parameter(torch.rand(33) + 0.5)",
    ),
    "classes with smoothed labels": reference(
        "return F.cross_entropy(a, b, label_smoothing=0.1, ignore_index=2)",
        f"{N}(40, 33)",
        "torch.randint(0, 33, (40,))",
    ),
    "classes of pixels": reference(
        "return F.cross_entropy(a, b)", f"{N}(2, 7, 9, 10)", "torch.randint(0, 7, (2, 9, 10))"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_losses_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards)
    assert three_languages.right(found), found


@pytest.mark.slow
def test_losses_are_right_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        assert three_languages.right(found), (name, found)


@pytest.mark.slow
def test_classes_are_read_in_cuda(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    source = reference(
        "return F.cross_entropy(a, b, reduction='none')",
        f"{N}(3, 2100)",
        "torch.randint(0, 2100, (3,))",
    )
    knobs = {"threads": 128, "cluster": 1}
    card = cards["gpu-rows-cluster"]
    bench = Bench(source, {})
    shop = three_languages.workshop(bench, {card.name: card}, "cuda")
    choice = {
        part.id: three_languages.Choice(recipe=card.name, knobs={**card.defaults(), **knobs})
        for part in shop.cut(())
    }
    module = three_languages.load_on_cpu(shop.source(shop.complete((), choice)), tmp_path)
    assert three_languages.right({card.name: bench.errors_of(module)})


@pytest.mark.parametrize("name", list(GRAPHS))
def test_nothing_of_a_loss_is_left_to_the_library(name: str, cards: dict[str, RecipeCard]) -> None:
    parts = Bench(GRAPHS[name], cards).parts()
    assert "library" not in [part.pattern for part in parts]


def test_the_similarity_of_two_numbers_is_the_librarys(cards: dict[str, RecipeCard]) -> None:
    source = reference("return F.cosine_similarity(a, a + 1, dim=0) * 2", f"{N}(())")
    patterns = [part.pattern for part in Bench(source, cards).parts()]
    assert patterns == ["pointwise", "library", "pointwise"]
