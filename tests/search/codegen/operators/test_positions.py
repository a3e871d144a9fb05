"""Triangles, diagonals and masks that are made of positions: in registers, in three languages."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import three_languages
import torch
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard
from search.codegen.lower import lower

N = "torch.randn"
SOURCES = {
    "both with diagonals": reference(
        "return torch.tril(a) + torch.triu(a, 2) * 2, torch.triu(b, -3) - b.tril(4)", f"{N}(2, 3, 7, 9)", f"{N}(13, 6)"
    ),
    "a mask of ones": reference(
        "m = torch.ones(9, 13, dtype=torch.bool).tril()\nreturn torch.where(m, a, -1.0) * 2", f"{N}(2, 3, 9, 13)"
    ),
    "a softmax that looks back": reference(
        "m = torch.ones(11, 21).triu(1)\nreturn a.masked_fill(m == 1, -1e9).softmax(-1)", f"{N}(2, 3, 11, 21)"
    ),
    "a softmax over what is masked with infinities": reference(
        "m = torch.full((12, 12), True).tril_()\nreturn a.masked_fill(~m, -torch.inf).softmax(-1)", f"{N}(5, 12, 12)"
    ),
    "a window by positions": reference(
        "i = torch.arange(10)[:, None]\nj = torch.arange(10)[None, :]\nm = (j <= i) & (j + 3 > i) & (j != 9)\n"
        "return a.masked_fill(~m.view(1, 10, 10), -1e9).softmax(-1) * (torch.arange(2, 12) >= 4)", f"{N}(2, 10, 10)"
    ),
    "a softmax behind a mask of numbers": reference(
        "m = torch.triu(torch.ones(9, 9), diagonal=1).bool()\nreturn a.masked_fill(m[None, None], -torch.inf).softmax(-1)",
        f"{N}(2, 3, 9, 9)",
    ),
    "what is true of numbers": reference(
        "return torch.where(F.relu(a).to(torch.bool), a * 2, -1.0)", f"{N}(6, 8)"
    ),
    "a softmax over rows of given lengths": reference(
        "m = torch.arange(50)[None, :] >= b[:, None]\nreturn a.masked_fill(m, float('-inf')).softmax(-1)",
        f"{N}(7, 50)", "torch.tensor([1, 50, 49, 2**40, 33, 17, 8])",
    ),
    "numbers that name a position": reference(
        "i = torch.arange(50)\nreturn torch.where(b[:, None] == i, a, 2.0) + torch.where(b.view(7, 1) != 3, a, 1)",
        f"{N}(7, 50)", "torch.tensor([1, 50, 49, 2**32 + 5, -(2**40), 17, 3])",
    ),
    "short lengths": reference(
        "return a * (torch.arange(50) < b.unsqueeze(-1))",
        f"{N}(7, 50)", "torch.tensor([1, 50, 49, 0, -4, 17, 3], dtype=torch.int32)",
    ),
    "the identity": reference("return a + torch.eye(8, dtype=a.dtype) * 3", f"{N}(4, 8, 8)"),
    "factors that lie in one matrix": reference(
        "p, l, u = torch.lu_unpack(a, b)\nreturn p, l * 2, u + 1",
        f"{N}(3, 7, 5)", "torch.randint(1, 8, (3, 5), dtype=torch.int32)",
    ),
    "the same of a wide one": reference(
        "p, l, u = torch.lu_unpack(a, b)\nreturn l, u",
        f"{N}(3, 5, 9)", "torch.randint(1, 6, (3, 5), dtype=torch.int32)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(SOURCES))
def test_no_library_makes_triangles(name: str, cards: dict[str, RecipeCard]) -> None:
    parts = Bench(SOURCES[name], cards).parts()
    kept = {part.id.split(":")[1].split("_")[0] for part in parts if part.pattern == "library"}
    assert kept <= {"lu", "getitem", "getitem_1", "slice"}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SOURCES))
def test_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(SOURCES[name], cards, 1)
    assert found
    assert three_languages.right(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in SOURCES if "softmax" in name or "window" in name]
)
def test_in_cuda(name: str, cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    found = three_languages.cuda(SOURCES[name], cards, tmp_path)
    assert found
    assert three_languages.right(found)


@pytest.mark.slow
def test_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(SOURCES, cards, tmp_path).items():
        assert found, name
        assert three_languages.right(found), name


@pytest.mark.parametrize(
    "body",
    ["return torch.ones(6, 6, dtype=a.dtype).tril() @ a", "return torch.ones(6, 6).tril(), a * 2"],
)
def test_what_is_made_of_nothing_is_left_to_the_library_alone(
    body: str, cards: dict[str, RecipeCard]
) -> None:
    bench = Bench(reference(body, f"{N}(6, 6)"), cards)
    assert lower(copy.deepcopy(bench.graph)).nodes["tril"].kind == "opaque"


@pytest.mark.parametrize("made", ["torch.eye(7)", "torch.ones(7, 7).tril()"])
def test_an_integer_is_compared_with_no_float(made: str, cards: dict[str, RecipeCard]) -> None:
    """Not in a kernel's lanes: the library does it."""
    body = f"return torch.where(b[:, None] > {made}, a, 2.0) * 3"
    bench = Bench(reference(body, f"{N}(7, 7)", "torch.arange(7)"), cards)
    parts = bench.parts()
    assert "library:gt" in {part.id for part in parts}
    choice = {part.id: (bench.fits(part)[0], {}) for part in parts if part.pattern != "library"}
    text = bench.candidate({k: (c, c.defaults()) for k, (c, _) in choice.items()}, ())
    assert three_languages.right({"cpp": bench.errors(text)})


def test_ones_that_were_written_into_are_none(cards: dict[str, RecipeCard]) -> None:
    body = "m = torch.ones_like(a)\nm.mul_(3)\nreturn m.tril() * a"
    bench = Bench(reference(body, f"{N}(4, 6)"), cards)
    (part,) = (part for part in bench.parts() if part.pattern != "library")
    card = cards["cpu-pointwise-fused"]
    text = bench.candidate({part.id: (card, card.defaults())}, ())
    assert three_languages.right({card.name: bench.errors(text)})


def test_a_triangle_of_infinities_has_zeros(cards: dict[str, RecipeCard]) -> None:
    source = reference("return torch.tril(a) * 1", "torch.full((5, 7), float('inf'))")
    bench = Bench(source, cards)
    (part,) = bench.parts()
    card = cards["cpu-pointwise-fused"]
    text = bench.candidate({part.id: (card, card.defaults())}, ())
    namespace: dict[str, object] = {}
    exec(compile(text, "candidate", "exec"), namespace)
    found = namespace["ModelNew"]()(*bench.inputs)  # type: ignore[operator]
    assert torch.equal(found, bench.model(*bench.inputs))
