"""Convolutions of volumes and transposed ones of one to three dimensions, in all three languages."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard
from search.codegen.next_recipes import throughout

N = "torch.randn"
GRAPHS = {
    "volumes": reference(
        "return F.relu(self.c(a))", f"{N}(2, 5, 4, 6, 9)", init="self.c = nn.Conv3d(5, 7, 3, padding='same')"
    ),
    "volumes with everything": reference(
        "return self.c(a) * 2", f"{N}(2, 8, 6, 9, 23)",
        init="self.c = nn.Conv3d(8, 20, (2, 3, 5), stride=(1, 2, 2), padding=(0, 1, 3), dilation=(2, 1, 1), groups=2)",
    ),
    "transposed planes with output padding": reference(
        "return self.c(a)", f"{N}(2, 6, 9, 13)", init="self.c = nn.ConvTranspose2d(6, 9, 3, 2, 1, 1)"
    ),
    "transposed planes with everything": reference(
        "return torch.tanh(self.c(a))", f"{N}(2, 6, 5, 7)",
        init="self.c = nn.ConvTranspose2d(6, 40, (3, 5), (3, 2), (1, 2), (2, 1), groups=2, dilation=(2, 3))",
    ),
    "transposed lines": reference(
        "return self.c(a)", f"{N}(2, 6, 50)",
        init="self.c = nn.ConvTranspose1d(6, 9, 5, 2, 0, dilation=2, bias=False)",
    ),
    "transposed volumes": reference(
        "return self.c(a)", f"{N}(1, 33, 3, 5, 7)", init="self.c = nn.ConvTranspose3d(33, 18, 3, 2, 1, 1)"
    ),
    "a kernel smaller than its stride": reference(
        "return self.c(a) + b", f"{N}(1, 3, 5, 7)", f"{N}(4, 1, 1)", init="self.c = nn.ConvTranspose2d(3, 4, 2, 5)"
    ),
    "depthwise transposed planes": reference(
        "return self.c(a)", f"{N}(2, 5, 6, 8)",
        init="self.c = nn.ConvTranspose2d(5, 5, 3, 2, 1, groups=5, bias=False)",
    ),
    "a transposed convolution of which some phases meet no weight": reference(
        "return self.c(a)", f"{N}(1, 8, 3, 4, 5)", init="self.c = nn.ConvTranspose3d(8, 16, 3, 2, 1, dilation=2)"
    ),
    "a kernel that is flat along the last axis": reference(
        "return self.c(a)", f"{N}(2, 3, 12, 9, 5)", init="self.c = nn.Conv3d(3, 64, (3, 3, 1), bias=False, padding='valid')"
    ),
    "what follows a transposed convolution reads channels and positions": reference(
        "return self.c(a) * b + c", f"{N}(2, 16, 3, 4, 5)", f"{N}(24, 1, 1, 1)", f"{N}(1, 1, 6, 8, 10)",
        init="self.c = nn.ConvTranspose3d(16, 24, 3, 2, 1, 1)",
    ),
    "planes, dilated, by strides that differ": reference(
        "return F.relu(self.c(a)) * b", f"{N}(2, 6, 9, 11)", f"{N}(18, 1, 1)",
        init="self.c = nn.Conv2d(6, 18, (3, 2), (2, 1), (2, 1), (2, 3))",
    ),
    "more padding than the kernel needs": reference(
        "return self.c(a)", f"{N}(2, 9, 7, 9)", init="self.c = nn.ConvTranspose2d(9, 17, 4, 2, 3, 1)"
    ),
    "a transposed convolution between others": reference(
        "return self.d(F.gelu(self.c(a) * self.s)).mean((2, 3))", f"{N}(1, 4, 7, 8)",
        init="self.c = nn.ConvTranspose2d(4, 6, 4, 2, 1)\nself.d = nn.ConvTranspose2d(6, 3, 3)\n"
        "self.s = nn.Parameter(torch.randn(6, 1, 1))",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_general_convolutions_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    # Its candidates differ in the recipe of what follows the convolutions.
    most = 1 if name == "a transposed convolution between others" else None
    found = three_languages.cpp(GRAPHS[name], cards, most)
    assert three_languages.right(found), found


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_general_convolutions_are_right_in_cuda(
    name: str, cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    found = three_languages.cuda(GRAPHS[name], cards, tmp_path)
    assert three_languages.right(found), found


@pytest.mark.slow
def test_general_convolutions_are_right_in_triton(
    cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        assert three_languages.right(found), (name, found)


def test_what_follows_joins_the_convolution(cards: dict[str, RecipeCard]) -> None:
    parts = Bench(GRAPHS["a kernel smaller than its stride"], cards).parts()
    assert [part.pattern for part in parts] == ["ndconv"]
    assert parts[0].dims["transposed"] == 1
    assert (parts[0].dims["od"], parts[0].dims["oh"], parts[0].dims["ow"]) == (1, 22, 32)


@pytest.mark.parametrize(
    ("layer", "given"),
    [("nn.ConvTranspose1d(2, 4, 3)", f"{N}(2, 9)"), ("nn.Conv3d(2, 4, 2)", f"{N}(2, 4, 5, 6)")],
)
def test_a_convolution_without_a_batch_is_the_librarys(
    layer: str, given: str, cards: dict[str, RecipeCard]
) -> None:
    source = reference("return F.relu(self.c(a)) + 1", given, init=f"self.c = {layer}")
    assert [part.pattern for part in Bench(source, cards).parts()] == ["library", "pointwise"]


@pytest.mark.parametrize(
    ("layer", "given", "padding"),
    [
        ("nn.Conv1d(2, 4, 3, padding='same', dilation=2)", f"{N}(2, 2, 9)", (0, 2)),
        ("nn.Conv1d(2, 4, 3, padding='valid')", f"{N}(2, 2, 9)", (0, 0)),
        ("nn.Conv2d(2, 4, (3, 5), padding='same')", f"{N}(2, 2, 8, 9)", (1, 2)),
        ("nn.Conv2d(2, 4, (3, 4), padding='same')", f"{N}(2, 2, 8, 9)", None),
    ],
)
def test_padding_by_name_is_that_of_numbers_where_both_sides_are_alike(
    layer: str, given: str, padding: tuple[int, int] | None, cards: dict[str, RecipeCard]
) -> None:
    source = reference("return F.relu(self.c(a)) + 1", given, init=f"self.c = {layer}")
    part = Bench(source, cards).parts()[0]
    if padding is None:
        assert part.pattern == "library"
    else:
        assert (part.pattern, part.dims["ph"], part.dims["pw"]) == ("conv", *padding)


def test_planes_are_of_any_rank_only_where_no_recipe_for_planes_fits(
    cards: dict[str, RecipeCard],
) -> None:
    def recipes(body: str) -> tuple[list[str], bool]:
        source = reference("return self.c(a)", f"{N}(2, 32, 20, 20)", init=f"self.c = {body}")
        shop = three_languages.workshop(Bench(source, {}), cards, "triton")
        (part,) = shop.cut(())
        kept, _, _ = throughout(shop)
        return [card.name for card in shop.recipes(part)], bool(kept)

    usual, kept = recipes("nn.Conv2d(32, 32, 3)")
    assert usual
    assert not kept
    assert not {"gpu-conv-any-rank", "gpu-conv-all-axes-split-half"} & {*usual}
    wider, kept = recipes("nn.Conv2d(32, 32, 3, dilation=2)")
    assert "gpu-conv-any-rank" in wider
    # Nothing was measured of them on planes: they are no part of a plan that does all convolutions.
    assert kept
