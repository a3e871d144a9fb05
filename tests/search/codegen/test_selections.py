"""Medians and histograms in all languages that have recipes for them: what is not a number, ties, and other dimensions."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard

N = "torch.randn"
HOLES = "torch.where(torch.rand({0}) > 0.7, float('nan'), torch.randn({0}))"
# No element occurs twice, so that each median has one place.
MEDIANS = {
    "everything": reference("return torch.median(a)", f"{N}(7, 30, 11)"),
    "one element": reference("return torch.median(a, 0, keepdim=True)", f"{N}(())"),
    "few long rows of a chain": reference(
        "return torch.median(torch.exp(a) - b, 1)", f"{N}(2, 70001)", f"{N}(1, 70001)"
    ),
    "rows, kept": reference("return torch.nanmedian(a, -1, True)", f"{N}(40, 37)"),
    "rows beyond a tile": reference(
        "return torch.nanmedian(a, -1)", "torch.where(torch.arange(5003) > 4100, float('nan'), torch.randn(3, 5003))"
    ),
    "deep columns": reference("return torch.median(a, 0)", f"{N}(5003, 3)"),
    "the middle": reference("return torch.median(a, 1).indices", f"{N}(3, 50, 21)"),
    "values that go on": reference("return torch.relu(torch.median(a, 0).values) * b", f"{N}(70, 45)", f"{N}(45)"),
    "one hole": reference(
        "return torch.isnan(torch.median(a)).float(), torch.median(a, 1).values.isnan().float(), torch.nanmedian(a)",
        "torch.where(torch.arange(9600).view(32, 300) == 17, float('nan'), torch.randn(32, 300))",
    ),
    "holes": reference("return torch.nanmedian(a, 1).values, torch.nanmedian(a)", HOLES.format("33, 301")),
    "nothing but holes": reference(
        "return torch.nanmedian(a, 1).values.isnan().float()", "torch.full((3, 9), float('nan'))"
    ),
    "ties and infinities": reference(
        "return torch.nan_to_num(torch.median(a, 1)[0])",
        "torch.tensor([0.0, -0.0, float('inf'), float('-inf'), 2.0])[torch.randint(0, 5, (50, 30))]",
    ),
}  # fmt: skip
HISTOGRAMS = {
    "given bounds": reference("return torch.histc(a, 7, -1, 1)", f"{N}(7, 30, 11)"),
    "bounds of the elements": reference("return torch.histc(torch.relu(a) * b)", f"{N}(41, 900)", f"{N}(900)"),
    "one bin, one element": reference("return torch.histc(a, 1), torch.histc(a, bins=3, min=2, max=2)", f"{N}(())"),
    "what is in no bin": reference(
        "return torch.histc(a, 10, 0, 10)", "torch.tensor([0.0, 10, 9.9999, float('nan'), float('inf'), -1, 5, 3])"
    ),
    "borders of bins": reference("return torch.histc(a, 5, 0, 10)", "torch.arange(11).float().repeat(30)"),
}  # fmt: skip
GRAPHS = {**MEDIANS, **HISTOGRAMS}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_selections_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards)
    assert three_languages.right(found), found


@pytest.mark.slow
def test_selections_are_right_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        assert three_languages.right(found), (name, found)


def test_values_and_places_of_a_median_are_one_kernel(cards: dict[str, RecipeCard]) -> None:
    source = reference(
        "found = torch.median(torch.exp(a), 1)\nreturn found[1], torch.exp(found[0])", f"{N}(5, 9)"
    )
    parts = Bench(source, cards).parts()
    assert [(part.pattern, len(part.outputs)) for part in parts] == [
        ("select", 2),
        ("pointwise", 1),
    ]
    assert (parts[0].dims["values"], parts[0].dims["places"]) == (0, 1)


def test_a_count_of_a_median_is_two_kernels(cards: dict[str, RecipeCard]) -> None:
    source = reference("return torch.histc(a - torch.median(a), 9)", f"{N}(5, 9)")
    assert [part.pattern for part in Bench(source, cards).parts()] == ["select", "histogram"]
