"""Poolings to a given size in all languages that have recipes for them: windows that differ, other ranks, places."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard

N = "torch.randn"
HOLES = "torch.where(torch.arange(2 * 3 * 7 * 19) % 97 == 5, float('{0}'), torch.randn(2 * 3 * 7 * 19)).view(2, 3, 7, 19)"
GRAPHS = {
    "averages of lines": reference("return F.adaptive_avg_pool1d(torch.tanh(a), 7) * 2", f"{N}(2, 3, 41)"),
    "more averages than elements": reference("return F.adaptive_avg_pool1d(a, 41)", f"{N}(2, 3, 18)"),
    "averages of planes": reference("return F.relu(F.adaptive_avg_pool2d(a * 2, (4, 19)))", f"{N}(2, 3, 7, 43)"),
    "one axis uneven": reference("return F.adaptive_avg_pool2d(a, (4, 5)) + 1", f"{N}(2, 3, 7, 40)"),
    "averages of volumes": reference("return F.adaptive_avg_pool3d(a, (3, 2, 19)) - 1", f"{N}(2, 3, 7, 5, 22)"),
    "one volume": reference("return F.adaptive_avg_pool3d(a, (5, 7, 4))", f"{N}(9, 8, 8, 8)"),
    "planes that stay": reference("return F.adaptive_avg_pool3d(torch.exp(a), (3, None, None))", f"{N}(2, 2, 7, 5, 9)"),
    "greatest of lines": reference("return F.adaptive_max_pool1d(a, 7)", f"{N}(3, 41)"),
    "greatest of planes": reference("return F.adaptive_max_pool2d(torch.sin(a), (4, 19)) * 2", f"{N}(2, 3, 7, 43)"),
    "greatest that divide": reference("return F.relu(F.adaptive_max_pool2d(a, (4, 5)))", f"{N}(2, 3, 12, 40)"),
    "greatest of all": reference("return F.adaptive_max_pool2d(a, 1) + 1", f"{N}(2, 3, 12, 40)"),
    "greatest of volumes": reference("return F.adaptive_max_pool3d(a, (2, 3, None))", f"{N}(3, 3, 4, 4, 6)"),
    "windows beyond the edge": reference("return F.max_pool2d(a * 2, 3, 2, ceil_mode=True)", f"{N}(2, 3, 8, 36)"),
    "a last window that would begin outside": reference(
        "return F.max_pool2d(a, 2, 3, 1, ceil_mode=True)", f"{N}(2, 3, 7, 37)"
    ),
    "averages beyond the edge": reference(
        "return F.avg_pool2d(a, 3, 2, 1, ceil_mode=True) + F.avg_pool2d(a, 3, 2, 1, True, False)", f"{N}(2, 3, 8, 36)"
    ),
    "lines and volumes beyond the edge": reference(
        "return F.max_pool3d(a, (3, 2, 2), (2, 2, 3), ceil_mode=True), F.avg_pool1d(a[0, 0, 0], 4, 3, 2, ceil_mode=True)",
        f"{N}(2, 3, 8, 7, 36)",
    ),
    "a convolution before": reference(
        "y = self.c(a)\nreturn F.adaptive_max_pool2d(y, 5), F.adaptive_avg_pool2d(y, 6), F.max_pool2d(self.c(a), 2, 2, ceil_mode=True)",
        f"{N}(2, 3, 13, 17)", init="self.c = nn.Conv2d(3, 8, 3)",
    ),
    "holes": reference(
        "x = F.adaptive_max_pool2d(a, (3, 4))\ny = F.adaptive_avg_pool2d(a, (3, 4))\n"
        "return x.isnan().float(), y.isnan().float(), torch.nan_to_num(x), torch.nan_to_num(y)", HOLES.format("nan")
    ),
    "infinities": reference(
        "x = F.adaptive_max_pool2d(a, (3, 4))\ny = F.adaptive_avg_pool2d(a, (3, 4))\n"
        "return torch.nan_to_num(x, posinf=9), torch.nan_to_num(y, posinf=9)", HOLES.format("inf")
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_poolings_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards, most=1 if "conv" in name else None)
    assert three_languages.right(found), found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["one axis uneven", "averages of volumes", "greatest of volumes", "averages beyond the edge"],
)
def test_poolings_are_right_in_cuda(
    name: str, cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    found = three_languages.cuda(GRAPHS[name], cards, tmp_path)
    assert three_languages.right(found), found


@pytest.mark.slow
def test_poolings_are_right_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        assert three_languages.right(found), (name, found)


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("averages of planes", ["pool"]),
        ("averages of volumes", ["pool", "pool"]),
        ("planes that stay", ["pool"]),
        ("greatest of all", ["rows"]),
    ],
)
def test_parts_of_a_pooling_to_a_size(
    name: str, patterns: list[str], cards: dict[str, RecipeCard]
) -> None:
    assert [part.pattern for part in Bench(GRAPHS[name], cards).parts()] == patterns


def test_a_pooling_whose_places_are_read_is_left_to_the_library(
    cards: dict[str, RecipeCard],
) -> None:
    source = reference("return F.adaptive_max_pool2d(a, 3, True)", f"{N}(2, 3, 7, 8)")
    assert {part.pattern for part in Bench(source, cards).parts()} == {"library"}
