"""Operators that are written as others: the same answers, and recipes that were there already."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
import torch
from recipe_bench import Bench, load, reference

from kb.errors import NoRecipe
from search.codegen.library import RecipeCard
from search.codegen.lower import SHOWS

N = "torch.randn"
GRAPHS = {
    "convolution of lines": reference(
        "return F.relu(self.c(a)) * 2", f"{N}(2, 8, 50)",
        init="self.c = nn.Conv1d(8, 12, 3, stride=2, padding=2, dilation=2)",
    ),
    "grouped convolution of lines with a residual": reference(
        "return self.c(a) + a", f"{N}(2, 8, 30)",
        init="self.c = nn.Conv1d(8, 8, 5, padding=2, groups=8, bias=False)",
    ),
    "convolutions of planes and volumes with more padding behind than before": reference(
        "return F.relu(self.c(a)) * 2, self.d(a[:, :, :5]) + 1", f"{N}(2, 4, 9, 11, 13)",
        init="self.c = nn.Conv3d(4, 8, (2, 3, 4), padding='same', dilation=(1, 2, 1))\n"
        "self.d = nn.Sequential(nn.Flatten(3), nn.Conv2d(4, 8, (3, 4), padding='same', bias=False))",
    ),
    "solutions from Cholesky factors": reference(
        "x = a @ a.mT + torch.eye(6)\nreturn torch.cholesky_solve(b, torch.linalg.cholesky(x)),"
        " torch.cholesky_solve(b * 2, torch.linalg.cholesky(x, upper=True), upper=True)",
        f"{N}(7, 6, 6)", f"{N}(7, 6, 3)",
    ),
    "shares that are turned for values in columns": reference(
        "s = F.softmax(a.mT @ b, -1)\nreturn torch.bmm(b, s.permute(0, 2, 1)).view(2, 24, 5, 10) + 1, a @ s.mT",
        f"{N}(2, 24, 50)", f"{N}(2, 24, 50)",
    ),
    "two losses of one row of classes": reference(
        "s, t = a @ b.T, torch.arange(30)\nreturn F.cross_entropy(s, t) + F.cross_entropy(s.T, t)",
        f"{N}(30, 16)", f"{N}(30, 16)",
    ),
    "einsum of four tensors": reference(
        "return torch.einsum('bclhn,bcshn,bhcls,bcshp->bclhp', a, b, c, d)",
        f"{N}(2, 3, 16, 4, 5)", f"{N}(2, 3, 16, 4, 5)", f"{N}(2, 4, 3, 16, 16)", f"{N}(2, 3, 16, 4, 6)",
    ),
    "einsums without matrices": reference(
        "return torch.einsum('bnd,bnd->bn', a, b), torch.einsum('bnd,bmd->nd', a, b), torch.einsum('bnd,d->bd', a, c)",
        f"{N}(2, 5, 6)", f"{N}(2, 5, 6)", f"{N}(6)",
    ),
    "decay by distance": reference(
        "d = torch.arange(40)[:, None] - torch.arange(40)[None, :]\n"
        "return (a @ b.mT) * torch.where(d >= 0, 0.9 ** d.float(), 0.0)",
        f"{N}(2, 40, 20)", f"{N}(2, 40, 20)",
    ),
    "queries that share keys": reference(
        "return F.scaled_dot_product_attention(a, b, b * 2, is_causal=True, enable_gqa=True)",
        f"{N}(2, 4, 40, 20)", f"{N}(2, 2, 40, 20)",
    ),
    "what the library says is true or not": reference(
        "m = torch.isin(torch.arange(40), torch.tensor([3, 30]))\nreturn torch.where(m[:, None], a, b) * 2",
        f"{N}(2, 40, 20)", f"{N}(2, 40, 20)",
    ),
    "pooling of lines": reference(
        "return F.max_pool1d(F.relu(a), 4, 2, 1) + F.avg_pool1d(a, 4, 2, 1)", f"{N}(2, 3, 41)"
    ),
    "greatest of volumes": reference(
        "return F.max_pool3d(torch.tanh(a), 3, 2, 1)", f"{N}(2, 3, 7, 9, 21)"
    ),
    "averages of volumes": reference(
        "return F.avg_pool3d(a, (2, 3, 3), (1, 2, 2), (0, 1, 1)) + F.avg_pool3d(a, (2, 3, 3), (1, 2, 2), (1, 1, 1),"
        " count_include_pad=False)[:, :, 1:-1]", f"{N}(2, 2, 6, 10, 33)"
    ),
    "a response norm of images": reference("return F.local_response_norm(a, 5, 0.2) * 2", f"{N}(2, 7, 9, 11)"),
    "a response norm of lines": reference("return F.local_response_norm(F.relu(a), 3, 0.2)", f"{N}(2, 7, 19)"),
    "averages of what was padded": reference(
        "return F.avg_pool2d(F.pad(a, (1, 1, 2, 2)), (4, 3), (2, 1)) * 3, F.avg_pool2d(F.pad(a, (1, 0, 1, 0)), 2, 1),"
        " F.avg_pool2d(F.pad(a, (1, 1, 1, 1), value=2.0), 3, 2)",
        f"{N}(2, 3, 16, 9)",
    ),
    "adaptive averages that divide": reference(
        "return F.adaptive_avg_pool2d(a * 2, (4, 5))", f"{N}(2, 3, 12, 40)"
    ),
    "attention": reference(
        "return F.scaled_dot_product_attention(a, b, b * 2)", f"{N}(2, 3, 40, 48)", f"{N}(2, 3, 56, 48)"
    ),
    "attention with a scale of its own": reference(
        "return F.relu(F.scaled_dot_product_attention(a, a, a, scale=0.3))", f"{N}(2, 33, 40)"
    ),
    "attention with a scale of zero": reference(
        "return F.relu(F.scaled_dot_product_attention(a, a, a, scale=0.0))", f"{N}(2, 33, 40)"
    ),
    "causal attention": reference(
        "return F.scaled_dot_product_attention(a, b, b * 2, is_causal=True)", f"{N}(2, 3, 40, 48)", f"{N}(2, 3, 56, 48)"
    ),
    "attention with a mask that is added": reference(
        "return F.scaled_dot_product_attention(a, b, b * 2, c)", f"{N}(2, 3, 40, 48)", f"{N}(2, 3, 56, 48)",
        f"{N}(40, 56)",
    ),
    "attention with a mask of truth values, one row of it empty": reference(
        "return F.scaled_dot_product_attention(a, b, b * 2, c)", f"{N}(2, 3, 40, 48)", f"{N}(2, 3, 56, 48)",
        f"({N}(2, 1, 40, 56) > 0) & (torch.arange(40) != 7)[:, None]",
    ),
    "distances between rows": reference(
        "return torch.cdist(a, b), torch.cdist(a, b, 1.0) * 2, torch.cdist(a, b, float('inf'))"
        " + torch.cdist(torch.relu(a), torch.relu(b), 0.0)",
        f"{N}(2, 40, 33)", f"{N}(2, 9, 33)",
    ),
    "an einsum that is a product": reference(
        "return F.relu(torch.einsum('bijl,lk->bijk', a, b))", f"{N}(2, 3, 20, 33)", f"{N}(33, 40)"
    ),
    "einsums of batches, of turned matrices and of several dimensions": reference(
        "return torch.einsum('bhi,hij->bhj', a, b), torch.einsum('bqhd,bkhd->bhqk', c, c * 2),"
        " torch.einsum('bchw,cd->bdhw', c, d)",
        f"{N}(9, 3, 20)", f"{N}(3, 20, 7)", f"{N}(2, 5, 4, 6)", f"{N}(5, 8)",
    ),
    "products that are scaled and added to": reference(
        "return torch.baddbmm(a, a, b, beta=0.5), torch.addmm(c, b[0], c, alpha=2), torch.addmm(c, c, b[0], beta=0)",
        f"{N}(2, 33, 33)", f"{N}(2, 33, 33)", f"{N}(33, 33)",
    ),
    "cells of recurrent layers": reference(
        "h, c = self.l(a, (b, b * 2))\nreturn h, c, self.g(a), self.r(a, c)", f"{N}(9, 20)", f"{N}(9, 33)",
        init="self.l = nn.LSTMCell(20, 33)\nself.g = nn.GRUCell(20, 33)\nself.r = nn.RNNCell(20, 33, bias=False)",
    ),
    "a bilinear layer and a gate": reference(
        "return self.l(a, b), F.glu(b, 1)", f"{N}(2, 4, 33)", f"{N}(2, 4, 20)", init="self.l = nn.Bilinear(33, 20, 9)"
    ),
    "a state that is overwritten": reference(
        "self.h.copy_(b)\nself.h = torch.tanh(self.h + a)\nreturn self.h * 2", f"{N}(4, 33)", f"{N}(4, 33)",
        init="self.h = torch.zeros(4, 33)",
    ),
    "a copy that is overwritten": reference(
        "x = torch.empty_like(a)\nx.copy_(a)\nx.mul_(2)\nreturn a + x", f"{N}(4, 33)"
    ),
    "copies of what is overwritten": reference(
        "x = a * 2\nd = x.clone()\nx.mul_(3)\ny = a.t() * 2\ne = y.contiguous()\ny.add_(1)\nreturn d + x + (e + y).t()",
        f"{N}(4, 33)",
    ),
    "copies that are overwritten": reference(
        "d = a.clone()\ne = d.detach()\nd.mul_(3)\ny = a.t() * 2\nf = y.reshape(-1)\nf.mul_(3)\n"
        "return e + a + y.t(), f", f"{N}(4, 33)"
    ),
    "a view that is overwritten": reference(
        "x = (a * 2).view(33, 4)\nx.relu_()\ny, i = torch.sort(x)\ny.mul_(3)\nreturn x + y.t().contiguous().view(33, 4) + i",
        f"{N}(4, 33)",
    ),
    "product with a whole number in a tensor": reference(
        "return F.relu(a) * torch.tensor(2) + torch.tensor([0.5])", f"{N}(9, 33)"
    ),
    "product with a number": reference("return a * b", f"{N}(9, 33)", "3.5"),
    "product with a diagonal": reference("return torch.diag(a) @ b", f"{N}(9)", f"{N}(9, 33)"),
    "product with a diagonal at the right": reference(
        "return F.relu(b @ torch.diag(a))", f"{N}(33)", f"{N}(9, 33)"
    ),
}  # fmt: skip

POOLINGS = (
    "pooling of lines",
    "greatest of volumes",
    "averages of volumes",
    "a response norm of images",
    "averages of what was padded",
    "adaptive averages that divide",
)


# One recipe of those that only do what another of these asks of them as well.
ALIKE = {
    "attention with a scale of its own", "attention with a scale of zero", "a state that is overwritten",
    "a copy that is overwritten", "copies that are overwritten", "product with a whole number in a tensor",
    "product with a diagonal", "product with a diagonal at the right",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_what_was_rewritten_is_right_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    found = three_languages.cpp(GRAPHS[name], cards, most=1 if name in ALIKE else None)
    assert three_languages.right(found), found


@pytest.mark.slow
@pytest.mark.parametrize("name", [*POOLINGS])
def test_what_was_rewritten_is_right_in_cuda(
    name: str, cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    found = three_languages.cuda(GRAPHS[name], cards, tmp_path)
    assert three_languages.right(found), found


@pytest.mark.slow
def test_what_was_rewritten_is_right_in_triton(
    cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    for name, found in three_languages.triton(GRAPHS, cards, tmp_path).items():
        assert three_languages.right(found), (name, found)


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("convolution of lines", ["conv"]),
        ("greatest of volumes", ["pool", "pool"]),
        ("adaptive averages that divide", ["pool"]),
        ("a response norm of images", ["pool"]),
        ("product with a diagonal", ["pointwise"]),
        ("einsum of four tensors", ["matmul", "pointwise", "matmul", "pointwise"]),
        ("queries that share keys", ["pointwise", "pointwise", "matmul", "rows", "matmul"]),
        ("what the library says is true or not", ["pointwise"]),
    ],
)
def test_parts_of_what_was_rewritten(
    name: str, patterns: list[str], cards: dict[str, RecipeCard]
) -> None:
    found = [
        part.pattern for part in Bench(GRAPHS[name], cards).parts() if part.pattern != "library"
    ]
    assert found == patterns


@pytest.mark.parametrize(
    "body",
    [
        "return F.max_pool1d(a, 3, dilation=2)",
        "return F.avg_pool3d(a.view(1, 2, 2, 2, 2), 2, divisor_override=3)",
        "return F.linear(a, torch.ones(8))",
        "return torch.einsum('bij,jk->bik', a, torch.ones(1, 5))",
        "return F.linear(a, torch.ones(6, 8), torch.ones(1))",
        "return F.scaled_dot_product_attention(a[:, None], a[:, None], a[:, None], dropout_p=0.5)",
    ],
)
def test_what_has_no_other_form_is_left_to_the_library(
    body: str, cards: dict[str, RecipeCard]
) -> None:
    parts = Bench(reference(body, f"{N}(1, 2, 8)"), cards).parts()
    assert {part.pattern for part in parts} == {"library"}


@pytest.mark.parametrize(
    "body",
    [
        "return F.conv1d(a, a)",
        "return F.max_pool1d(a, 2)",
        "return F.max_pool3d(a[None], 2)",
        "return F.adaptive_avg_pool2d(a[None], 2)",
        "return torch.einsum('ijk,kl->ijl', a, a[0].t())",
        "return torch.diag(a[0, 0]) @ a[0].t()",
        "return F.scaled_dot_product_attention(a, a, a)",
        "return a.flip(0).cumsum(0).flip(0)",
    ],
)
def test_what_does_not_compute_in_single_precision_is_left_to_the_library(
    body: str, cards: dict[str, RecipeCard]
) -> None:
    source = reference(body, "torch.randn(4, 2, 8, dtype=torch.float64)")
    assert right_by_the_library(source, cards)


@pytest.mark.parametrize(
    "body",
    [
        "(a > 0) * (b > 0)",
        "torch.maximum(a > 0, b > 0)",
        "((a > 0) * (b > 0)).sum(-1)",
        "(a > 0) * 2 + 1",
        "torch.where(a > 0, 1, 0)",
        "torch.softmax(a, -1, dtype=torch.float64)",
        "a.to(torch.int8).to(torch.uint8) + 1",
        "a.to(torch.complex64)",
    ],
)
def test_arithmetic_in_another_type_than_single_precision_is_left_to_the_library(
    body: str, cards: dict[str, RecipeCard]
) -> None:
    source = reference(f"return {body}", f"{N}(4, 33)", f"{N}(4, 33)")
    assert right_by_the_library(source, cards)


@pytest.mark.parametrize(
    "body",
    [
        "x = a * 2\ny = x.view(-1)\ny.relu_()\nreturn x * 3",
        "y = a.clone()\ny[:, 0].mul_(3)\nreturn y + b",
        "x = a * 2\nh = x.unsqueeze(0)\nx += 1\nreturn h * 2",
        "x = a * 2\ny, z = x.chunk(2)\nx.relu_()\nreturn y + z",
        "x = a * 2\ny = x.mT\nx.relu_()\nreturn y * 3",
        "x = a * 2\ny, z = x.tensor_split(2)\nx.relu_()\nreturn y + z",
    ],
)
def test_what_is_written_into_and_read_through_another_view_is_written_out_of_place(
    body: str, cards: dict[str, RecipeCard]
) -> None:
    source = reference(body, f"{N}(4, 33)", f"{N}(4, 33)")
    found = three_languages.cpp(source, cards)
    assert three_languages.right(found), found


@pytest.mark.parametrize(
    "body",
    [
        "a[:, 0].mul_(3)\nreturn a + b",  # an input
        "x = a * 2\ny = torch.meshgrid(b[0], x[1], indexing='ij')\nx.relu_()\nreturn y[1] * 3",
    ],
)
def test_what_cannot_be_written_out_of_place_and_is_read_through_another_view_has_no_recipe(
    body: str, cards: dict[str, RecipeCard]
) -> None:
    source = reference(body, f"{N}(4, 33)", f"{N}(4, 33)")
    with pytest.raises(NoRecipe, match="through another view"):
        Bench(source, cards).parts()


def test_every_operator_that_shows_its_argument_is_known() -> None:
    shown = set()
    for schema in torch._C._jit_get_all_schemas():
        first = schema.arguments[0].alias_info if schema.arguments else None
        if first is not None and not first.is_write and any(r.alias_info for r in schema.returns):
            shown.add(schema.name.removeprefix("aten::"))
    # Those of sparse and nested tensors and of automatic differentiation, and methods of Python's lists.
    other = {"indices", "values", "crow_indices", "ccol_indices", "row_indices", "col_indices", "coalesce", "unpack",
             "slice_inverse", "keys", "cpu", "cuda", "pin_memory", "as_tensor", "list", "get", "setdefault"}  # fmt: skip
    missing = {one for one in shown - SHOWS - other if not one.startswith("_") and "::" not in one}
    assert not missing


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "x = a * 3\ntorch.sum(a, 0, keepdim=True, out=x[:1])\nreturn x * 2",
            "writes into its argument",
        ),
        ("return torch.ops.prims.exp(a) + 1", "prims.exp.default is no operator"),
        (
            'with torch.autocast("cpu", dtype=torch.bfloat16):\n    x = a @ a.t()\nreturn x.float() + 1',
            r"torch\.autocast.*write them out",
        ),
        (
            "return torch.cond(a.sum() > 0, lambda x: x.exp(), lambda x: x.sin(), (a,))",
            "cond is no operator",
        ),
        ("return torch.vmap(lambda x: x.exp())(a)", "vmap.* is no operator"),
    ],
)
def test_what_is_no_call_of_an_operator_has_no_recipe(
    body: str, told: str, cards: dict[str, RecipeCard]
) -> None:
    with pytest.raises(NoRecipe, match=told) as raised:
        Bench(reference(body, f"{N}(4, 33)"), cards).parts()
    assert "\n" not in str(raised.value)


def right_by_the_library(source: str, cards: dict[str, RecipeCard]) -> bool:
    bench = Bench(source, cards)
    parts = bench.parts()
    assert {part.pattern for part in parts} == {"library"}
    ((own, eager),) = bench.errors(bench.candidate({}, ()))
    return own <= eager


def test_large_matrices_are_solved_by_the_library(cards: dict[str, RecipeCard]) -> None:
    source = reference("return torch.cholesky_solve(a, b) * 2", f"{N}(40, 3)", f"{N}(40, 40)")
    assert [part.pattern for part in Bench(source, cards).parts()] == ["library", "pointwise"]


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["is_causal=True", "attn_mask=c", "attn_mask=c > -1"])
def test_attention_to_nothing_is_zero(mask: str, cards: dict[str, RecipeCard]) -> None:
    """The first query sees the first key alone, whose score is minus infinity."""
    source = reference(
        f"return F.scaled_dot_product_attention(a, b, b.nan_to_num(), {mask})",
        "torch.ones(1, 4, 8)",
        "torch.cat((torch.full((1, 1, 8), -torch.inf), torch.ones(1, 3, 8)), 1)",
        "torch.full((4, 4), -torch.inf).triu(1)",
    )
    bench = Bench(source, cards)
    choice = {
        part.id: (card, card.defaults())
        for part in bench.parts()
        if part.pattern != "library"
        for card in bench.fits(part)[:1]
    }
    own, eager = (
        load(bench.candidate(choice, ())).ModelNew()(*bench.inputs),
        bench.model(*bench.inputs),
    )
    assert not eager[0, 0].any()
    assert torch.allclose(own, eager)
