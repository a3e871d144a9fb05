"""Running sums, products and extremes from either end, in all three languages."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard

N = "torch.randn"
GRAPHS = {
    "sums of odd rows": reference("return torch.cumsum(a, 1)", f"{N}(5, 333)"),
    "sums of what is masked": reference(
        "return torch.cumsum(F.relu(a) * b, 1) * 2", f"{N}(5, 70)", f"{N}(5, 70) > 0"
    ),
    "products in the middle": reference("return torch.cumprod(a, 1)", f"{N}(5, 20, 3)"),
    "products of rows": reference("return torch.cumprod(a * 1.1, 1)", f"{N}(4, 130)"),
    "extremes without their places": reference(
        "return torch.cummax(a, 1)[0] + torch.cummin(a, 0).values", f"{N}(5, 120)"
    ),
    "sums of a long row from its end": reference(
        "return torch.flip(torch.cumsum(torch.flip(a * b, [1]), 1), [1]) + 1",
        f"{N}(1, 30033)",
        f"{N}(1, 30033)",
    ),
    "products of columns from their end": reference(
        "return a.flip(0).cumprod(0).flip(0)", f"{N}(7, 33)"
    ),
    "sums turned around once": reference("return a.flip(1).cumsum(1).flip(0)", f"{N}(7, 33)"),
    "sums beside tiny planes": reference("return a.cumsum(-2)", f"{N}(2, 70, 2, 2)"),
    "products of long columns": reference("return torch.cumprod(1 + a * 0.01, 0)", f"{N}(9000, 3)"),
    "sums of long columns from their end": reference(
        "return a.flip(1).cumsum(1).flip(1) * 2", f"{N}(2, 8300, 2)"
    ),
    "sums of a large mean": reference("return torch.cumsum(a + 1000, -1)", f"{N}(3, 2000)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_scans_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards)
    assert three_languages.right(found), found


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_scans_are_right_in_cuda(name: str, cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    found = three_languages.cuda(GRAPHS[name], cards, tmp_path)
    assert three_languages.right(found), found


@pytest.mark.slow
def test_scans_are_right_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        # Triton's sums are in single precision; the framework's are not.
        assert three_languages.right(found, 3e-6), (name, found)


def test_few_long_columns_are_split(cards: dict[str, RecipeCard]) -> None:
    """One program of 32 columns took 478 us on an H200, torch.compile's kernels 13.5."""
    bench = Bench(reference("return torch.cumprod(a, 0)", f"{N}(10485, 25)"), {})
    names = set(three_languages.candidates(three_languages.workshop(bench, cards, "triton")))
    assert "gpu-scan-split" in names
    assert "gpu-scan-rows" not in names


def test_a_scan_between_two_flips_is_one_kernel(cards: dict[str, RecipeCard]) -> None:
    parts = Bench(GRAPHS["sums of a long row from its end"], cards).parts()
    assert [(part.pattern, part.dims["reverse"]) for part in parts] == [("scan", 1)]


def test_flips_of_different_dimensions_stay(cards: dict[str, RecipeCard]) -> None:
    parts = Bench(GRAPHS["sums turned around once"], cards).parts()
    assert [part.pattern for part in parts] == ["library", "scan", "library"]


def test_a_scan_whose_places_are_wanted_stays(cards: dict[str, RecipeCard]) -> None:
    source = reference(
        "values, places = torch.cummax(a, 1)\nreturn values * 2, places", f"{N}(5, 9)"
    )
    patterns = [part.pattern for part in Bench(source, cards).parts()]
    assert "scan" not in patterns
