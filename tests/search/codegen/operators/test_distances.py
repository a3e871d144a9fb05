"""Distances between all pairs of rows in C++ and Triton: orders, shapes, what is no number."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard

N = "torch.randn"
HOLES = "torch.where(torch.arange(259).view(37, 7) % 97 == 5, float('{0}'), torch.randn(37, 7))"
GRAPHS = {
    "of a chain": reference("return F.pdist(torch.tanh(a) * b)", f"{N}(70, 33)", f"{N}(33)"),
    "two rows": reference("return F.pdist(a) * 2", f"{N}(2, 5)"),
    "points": reference("return F.pdist(a)", f"{N}(133, 3)"),
    "numbers": reference("return F.pdist(a)", f"{N}(41, 1)"),
    "long rows": reference("return F.pdist(a, 1.0)", f"{N}(19, 1501)"),
    "the greatest difference": reference("return F.pdist(a, float('inf'))", f"{N}(50, 40)"),
    "how many differ": reference("return F.pdist(torch.relu(a), 0.0)", f"{N}(50, 40)"),
    "order three": reference("return F.pdist(a, 3.0)", f"{N}(30, 20)"),
    "a broken order": reference("return F.pdist(a, 1.5) + F.pdist(a, 0.7)", f"{N}(20, 20)"),
    "half an order": reference("return F.pdist(a, 0.5)", f"{N}(20, 20)"),
    "few long rows, the greatest difference": reference("return F.pdist(torch.exp(a), float('inf'))", f"{N}(5, 203)"),
    "holes": reference(
        "x, y = F.pdist(a), F.pdist(a, 0.0)\nz = F.pdist(a, float('inf'))\n"
        "return x.isnan().float(), y.isnan().float(), z.isnan().float(), torch.nan_to_num(x)", HOLES.format("nan")
    ),
    "infinities": reference(
        "x = F.pdist(a)\nreturn x.isnan().float(), x.isinf().float(), torch.nan_to_num(x, posinf=9)", HOLES.format("inf")
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_distances_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards)
    assert three_languages.right(found), found


@pytest.mark.slow
def test_distances_are_right_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        assert three_languages.right(found), (name, found)


def test_distances_take_along_what_is_before_them_and_nothing_behind(
    cards: dict[str, RecipeCard],
) -> None:
    source = reference("return torch.exp(F.pdist(torch.tanh(a)))", f"{N}(7, 5)")
    parts = Bench(source, cards).parts()
    assert [part.pattern for part in parts] == ["pairs", "pointwise"]
    assert parts[0].dims["order"] == "2.0"


def test_one_row_has_no_distances(cards: dict[str, RecipeCard]) -> None:
    parts = Bench(reference("return F.pdist(a)", f"{N}(1, 5)"), cards).parts()
    assert {part.pattern for part in parts} == {"library"}
