"""Places of extremes, in all three languages: the first of equals, and of what is not a number."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import reference

from search.codegen.library import RecipeCard

N = "torch.randn"
GRAPHS = {
    "rows": reference("return torch.argmax(a, 1)", f"{N}(5, 333)"),
    "rows of a chain, kept": reference(
        "return torch.argmin(torch.abs(a - b), -1, keepdim=True)", f"{N}(40, 37)", f"{N}(1, 37)"
    ),
    "columns": reference("return torch.argmax(a, 0)", f"{N}(70, 45)"),
    "the middle": reference("return torch.argmin(a, 1)", f"{N}(3, 50, 21)"),
    "everything": reference("return torch.argmax(a)", f"{N}(7, 30, 11)"),
    "equals": reference("return torch.argmax(a, 1), torch.argmin(a, 0)", "torch.randint(0, 3, (9, 300)).float()"),
    "rows that are masked out": reference(
        "return torch.argmax(a.masked_fill(b, float('-inf')), 1)", f"{N}(4, 90)", "torch.arange(90) < 80"
    ),
    "not a number": reference(
        "return torch.argmax(torch.where(b, float('nan'), a), 1)", f"{N}(4, 300)", "torch.rand(4, 300) > 0.98"
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_places_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards)
    assert three_languages.right(found, 0), found


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_places_are_right_in_cuda(name: str, cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    found = three_languages.cuda(GRAPHS[name], cards, tmp_path)
    assert three_languages.right(found, 0), found


@pytest.mark.slow
def test_places_are_right_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        assert three_languages.right(found, 0), (name, found)
