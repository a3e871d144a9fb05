"""Samples at places that a grid gives, in C++ and Triton: modes, padding, ranks, and places that are no numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard

N = "torch.randn"
PLANES = (f"{N}(2, 3, 7, 9)", f"{N}(2, 5, 11, 2) * 1.2")
VOLUMES = (f"{N}(2, 3, 5, 7, 9)", f"{N}(2, 3, 7, 5, 3) * 1.2")
PADDINGS = ("zeros", "border", "reflection")


def sampled(mode: str, corners: bool, behind: str = "") -> str:
    """Return the forward that samples with each padding."""
    calls = (
        f"F.grid_sample(a, b, '{mode}', '{padding}', align_corners={corners}){behind}"
        for padding in PADDINGS
    )
    return f"return {', '.join(calls)}"


GRAPHS = {
    "planes": reference(sampled("bilinear", False, " * 2 + 1"), *PLANES),
    "planes by their corners": reference(sampled("bilinear", True), *PLANES),
    "the nearest of planes": reference(sampled("nearest", False), *PLANES),
    "the nearest of planes by their corners": reference(sampled("nearest", True), *PLANES),
    "planes by cubes": reference(sampled("bicubic", False), *PLANES),
    "planes by cubes and by their corners": reference(sampled("bicubic", True), *PLANES),
    "volumes": reference(sampled("bilinear", False), *VOLUMES),
    "volumes by their corners": reference(sampled("bilinear", True, ".relu()"), *VOLUMES),
    "the nearest of volumes": reference(sampled("nearest", False), *VOLUMES),
    "a plane of one element": reference(sampled("bilinear", True), f"{N}(2, 3, 1, 1)", f"{N}(2, 5, 3, 2)"),
    "places mostly outside": reference(
        sampled("bilinear", False, ".exp()"), f"{N}(2, 3, 5, 7, 9)", f"{N}(2, 7, 11, 9, 3) * 4"
    ),
    "few places": reference(sampled("bilinear", False), f"{N}(3, 1, 4, 5)", f"{N}(3, 1, 2, 2)"),
    "an affine grid": reference(
        "g = F.affine_grid(b, (2, 3, 8, 6), align_corners=False)\nreturn F.grid_sample(torch.tanh(a), g, align_corners=False)",
        f"{N}(2, 3, 7, 9)", f"{N}(2, 2, 3)",
    ),
}  # fmt: skip
# Where a place is no number, a processor's answer of planes is none, a GPU's is zero; of volumes both are zero.
HOLES = "torch.where(torch.arange({1}).view({0}) % 13 == 5, float('{2}'), torch.randn({0}))"


def with_holes(size: str, count: int, grid: str, body: str) -> str:
    """Return a forward whose grid has places that are no numbers or infinite."""
    holes = (HOLES.format(grid, count, kind) for kind in ("nan", "inf"))
    return reference(body, f"{N}({size})", *holes)


SPECIAL = {
    "volumes": with_holes(
        "1, 2, 3, 4, 5", 90, "1, 2, 3, 5, 3",
        "return F.grid_sample(a, b, align_corners=False), F.grid_sample(a, c, align_corners=True)",
    ),
    "infinite elements": reference(
        "x = F.grid_sample(a, b, align_corners=True)\nreturn x.isnan().float(), torch.nan_to_num(x, posinf=9)",
        "torch.where(torch.arange(60).view(1, 1, 6, 10) % 17 == 5, float('inf'), torch.randn(1, 1, 6, 10))",
        f"{N}(1, 9, 9, 2)",
    ),
}  # fmt: skip
PLANES_WITH_HOLES = with_holes(
    "1, 2, 4, 5", 60, "1, 6, 5, 2",
    "x, y = F.grid_sample(a, b, align_corners=False), F.grid_sample(a, c, align_corners=True)\n"
    "z = F.grid_sample(a, b, padding_mode='border', align_corners=False)\n"
    "w = F.grid_sample(a, c, padding_mode='reflection', align_corners=False)\n"
    "return x.isnan().float(), y.isnan().float(), torch.nan_to_num(x), torch.nan_to_num(y), z, w",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_samples_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards)
    assert three_languages.right(found), found


@pytest.mark.slow
@pytest.mark.parametrize("source", [*SPECIAL.values(), PLANES_WITH_HOLES])
def test_what_is_no_number_goes_as_the_framework_has_it(
    source: str, cards: dict[str, RecipeCard]
) -> None:
    found = three_languages.cpp(source, cards, most=1)
    assert three_languages.right(found), found


@pytest.mark.slow
def test_samples_are_right_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    sources = {**GRAPHS, **{f"{name} with holes": text for name, text in SPECIAL.items()}}
    for name, found in three_languages.triton(sources, cards, tmp_path).items():
        assert three_languages.right(found), (name, found)


def test_samples_take_along_what_is_behind_them(cards: dict[str, RecipeCard]) -> None:
    body = "return torch.relu(F.grid_sample(torch.exp(a), b, align_corners=False)) * 2"
    parts = Bench(reference(body, *PLANES), cards).parts()
    assert [part.pattern for part in parts] == ["pointwise", "sample"]
    assert len(parts[1].inputs) == 2


def test_samples_of_double_precision_are_left_to_the_library(cards: dict[str, RecipeCard]) -> None:
    body = "return F.grid_sample(a.double(), b.double(), align_corners=False)"
    patterns = {part.pattern for part in Bench(reference(body, *PLANES), cards).parts()}
    assert "sample" not in patterns
