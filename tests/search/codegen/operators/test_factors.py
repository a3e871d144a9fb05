"""Factorisations of small matrices in all languages that have recipes for them."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import Bench, reference

from search.codegen.library import RecipeCard

N = "torch.randn"

POSITIVE = "(lambda x: x @ x.mT + torch.eye(x.shape[-1]))(torch.randn({0}))"
TRIANGLES = "torch.rand({0}) + torch.eye(({0})[-1])"
CHOLESKY = {
    "lower": reference("return torch.cholesky(a)", POSITIVE.format("(37, 5, 5)")),
    "upper of a chain": reference(
        "return torch.cholesky(a * 2 + b, upper=True)", POSITIVE.format("(3, 7, 6, 6)"), "torch.eye(6)"
    ),
    "the other triangle is not read": reference(
        "return torch.cholesky(a), torch.cholesky(b, True)",
        "torch.eye(9) + 9 * torch.rand(9, 9).triu(1)",
        "torch.eye(9) + 9 * torch.rand(9, 9).tril(-1)",
    ),
    "one element": reference("return torch.cholesky(a)", "torch.rand(70, 1, 1) + 1"),
    "linalg": reference("return torch.linalg.cholesky(a) * 2", POSITIVE.format("(4, 32, 32)")),
    "inverse": reference("return torch.cholesky_inverse(a)", TRIANGLES.format("(37, 5, 5)")),
    "inverse, upper": reference(
        "return torch.relu(torch.cholesky_inverse(a - b, upper=True))", TRIANGLES.format("(3, 17, 17)"), "torch.zeros(17)"
    ),
    "inverse of one": reference("return torch.cholesky_inverse(a)", TRIANGLES.format("(3, 3)")),
}  # fmt: skip
QR = {
    "both factors": reference("return torch.qr(a)", f"{N}(37, 5, 5)"),
    "both of a tall chain": reference(
        "q, r = torch.linalg.qr(a * 2 + b)\nreturn q + 1, r", f"{N}(3, 7, 9, 4)", f"{N}(4)"
    ),
    "both of a wide one": reference("return torch.linalg.qr(a)", f"{N}(6, 3, 8)"),
    "the triangle alone": reference("return torch.relu(torch.linalg.qr(a)[1])", f"{N}(6, 7, 7)"),
    "the orthogonal factor alone": reference("return torch.linalg.qr(a).Q", f"{N}(17, 6)"),
    "one element": reference("return torch.linalg.qr(a)", f"{N}(70, 1, 1)"),
    "a column that is zero": reference(
        "return torch.geqrf(a)", f"{N}(9, 6, 4) * torch.tensor([1.0, 0.0, 1.0, 1.0])"
    ),
    "reflections": reference("a, t = torch.geqrf(a)\nreturn t * 2, a", f"{N}(37, 5, 7)"),
}
SQUARES = "torch.randn({0}) * 0.3 + 2 * torch.eye(({0})[-1])"
PIVOTS = "torch.arange(2, {1} + 2).clamp(max={1}).int().repeat({0}, 1)"
SOLVED = {
    "lu": reference(
        "return torch.lu_solve(c, a, b)",
        SQUARES.format("(37, 5, 5)"),
        PIVOTS.format(37, 5),
        f"{N}(37, 5, 2)",
    ),
    "lu from the right, across": reference(
        "return torch.linalg.lu_solve(a * 2, b, c, left=False, adjoint=True) + 1",
        SQUARES.format("(3, 17, 17)"),
        PIVOTS.format(3, 17),
        f"{N}(3, 4, 17)",
    ),
    "lu of one": reference(
        "return torch.linalg.lu_solve(a, b.squeeze(0), c, adjoint=True)",
        SQUARES.format("(6, 6)"),
        PIVOTS.format(1, 6),
        f"{N}(6, 3)",
    ),
    "reflections": reference(
        "return torch.ormqr(a, b, c)", f"{N}(7, 6, 4)", "torch.rand(7, 4)", f"{N}(7, 6, 3)"
    ),
    "reflections from the right, across": reference(
        "return torch.ormqr(a * 2, b, c, False, True)", f"{N}(9, 9)", "torch.rand(9)", f"{N}(5, 9)"
    ),
}
PIVOTED = {
    "inverse of a chain": reference("return torch.linalg.inv(a * 2 + b)", f"{N}(37, 5, 5)", f"{N}(5)"),
    "old inverse": reference("return torch.relu(torch.inverse(a))", f"{N}(3, 19, 19)"),
    "determinant": reference("return torch.det(a) * 2", f"{N}(37, 5, 5)"),
    "determinant of one": reference("return torch.linalg.det(a)", f"{N}(8, 8)"),
    "log determinant": reference("return torch.nan_to_num(torch.logdet(a), 7)", f"{N}(33, 6, 6)"),
    "sign and log": reference("s, l = torch.linalg.slogdet(a)\nreturn l + 1, s", f"{N}(2, 9, 4, 4)"),
    "the log alone": reference("return torch.slogdet(a)[1].sum()", f"{N}(70, 3, 3)"),
    "the sign alone": reference("return torch.slogdet(a).sign", f"{N}(70, 2, 2)"),
    "without a determinant": reference(
        "return torch.det(a), torch.slogdet(a)[0]", "torch.ones(5, 3, 3) + torch.arange(5).view(5, 1, 1)"
    ),
    "equations": reference("return torch.linalg.solve(a, b)", f"{N}(37, 5, 5)", f"{N}(37, 5, 2)"),
    "equations with a vector": reference("return torch.linalg.solve(a, b)", f"{N}(37, 5, 5)", f"{N}(37, 5)"),
    "equations from the right": reference("return torch.linalg.solve(a, b, left=False)", f"{N}(3, 6, 6)", f"{N}(3, 2, 6)"),
}  # fmt: skip
MADE = "return (u * s.unsqueeze(-2)) @ {0}, s, u.mT @ u, {0} @ {0}.mT"  # whatever the signs of vectors are
SINGULAR = {
    "singular vectors of tall ones": reference(f"u, s, v = torch.svd(a * 2)\n{MADE.format('v.mT')}", f"{N}(37, 5, 3)"),
    "singular vectors of wide ones": reference(f"u, s, v = torch.svd(a)\n{MADE.format('v.mT')}", f"{N}(2, 7, 3, 6)"),
    "singular vectors as rows": reference(f"u, s, v = torch.linalg.svd(a)\n{MADE.format('v')}", f"{N}(9, 4, 4)"),
    "singular vectors as rows of wide ones": reference(
        f"u, s, v = torch.linalg.svd(a, full_matrices=False)\n{MADE.format('v')}", f"{N}(2, 9)"
    ),
    "vectors of rank one": reference(
        f"u, s, v = torch.svd(a)\n{MADE.format('v.mT')}", "torch.ones(5, 6, 3) * torch.arange(5).view(5, 1, 1)"
    ),
    "right vectors alone": reference("return torch.svd(a)[2].abs() + 1", f"{N}(20, 3, 2)"),
    "singular values": reference("return torch.linalg.svdvals(a) + 1", f"{N}(3, 4, 11)"),
    "largest singular value": reference("return torch.svd(a).S.amax(-1)", f"{N}(30, 3, 3)"),
    "pseudo-inverse of tall ones": reference("return torch.pinverse(torch.relu(a) + b)", f"{N}(37, 5, 3)", f"{N}(5, 3)"),
    "pseudo-inverse of wide ones": reference("return torch.pinverse(a)", f"{N}(4, 3, 7)"),
    "pseudo-inverse of rank one": reference("return torch.pinverse(a, 1e-3)", "torch.ones(5, 4, 3)"),
}  # fmt: skip
GRAPHS = {**CHOLESKY, **QR, **SOLVED, **PIVOTED, **SINGULAR}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
@pytest.mark.filterwarnings("ignore:.*is deprecated in favor of:UserWarning")
def test_factors_are_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards)
    assert three_languages.right(found), found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is deprecated in favor of:UserWarning")
def test_factors_are_right_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        assert three_languages.right(found), (name, found)


def test_a_chain_before_a_factorisation_is_in_its_kernel(cards: dict[str, RecipeCard]) -> None:
    source = reference("return torch.relu(torch.cholesky_inverse(a * 2))", f"{N}(5, 4, 4)")
    parts = Bench(source, cards).parts()
    assert [part.pattern for part in parts] == ["factor", "pointwise"]
    assert (parts[0].dims["rows"], parts[0].dims["kind"]) == (5, "inverse")


@pytest.mark.parametrize(
    "body",
    ["torch.qr(a, some=False)", "torch.linalg.qr(a, 'complete')", "torch.linalg.qr(a, 'r').R"],
)
@pytest.mark.filterwarnings("ignore:.*is deprecated in favor of:UserWarning")
def test_other_factors_of_qr_are_left_to_the_library(
    body: str, cards: dict[str, RecipeCard]
) -> None:
    parts = Bench(reference(f"return {body}", f"{N}(5, 6, 4)"), cards).parts()
    assert {part.pattern for part in parts} == {"library"}


@pytest.mark.parametrize(
    "source",
    [
        reference("return torch.linalg.lu_solve(a, b, c)", f"{N}(33, 33)", "torch.arange(1, 34).int()", f"{N}(33, 2)"),
        reference("return torch.linalg.solve(a, b)", f"{N}(33, 33)", f"{N}(33, 2)"),
        reference("return torch.ormqr(a, b, c)", f"{N}(32, 4)", "torch.rand(4)", f"{N}(32, 3)"),
        reference("return torch.ormqr(a, b, c)", f"{N}(6, 4)", "torch.rand(3)", f"{N}(6, 3)"),
    ],
)  # fmt: skip
def test_solutions_that_no_recipe_computes_stay_whole(
    source: str, cards: dict[str, RecipeCard]
) -> None:
    assert [part.pattern for part in Bench(source, cards).parts()] == ["library"]


def test_a_large_matrix_is_left_to_the_library(cards: dict[str, RecipeCard]) -> None:
    source = reference("return torch.cholesky_inverse(a)", f"{N}(2, 33, 33)")
    assert [part.pattern for part in Bench(source, cards).parts()] == ["library"]
