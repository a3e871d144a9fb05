"""Attention as one part: recognised in its forms, left alone where its inside is read, right in a dry run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from dry import make_task
from recipe_bench import Bench, reference

from kb.app.queries import find_target
from search.attempt import Diagnosis, Moment
from search.codegen.applicability import make_shop, suiting
from search.codegen.attention import apart, softmax_of
from search.codegen.library import RecipeCard
from search.codegen.next_recipes import proposals, start
from search.codegen.plan import Choice, Composer
from search.costs.work import least_seconds
from search.judging.dryrun.judge import DryJudge
from search.outcome import Checked
from search.reference import load_problem
from search.sandbox.fork_server import DRY
from search.sandbox.zygote import Zygote

N = "torch.randn"
HEADS = """q, k = (x.view(2, 40, 3, 20).transpose(1, 2) for x in (a, b))
s = (q @ k.transpose(-2, -1)) / 4
m = torch.ones(40, 40).tril().view(1, 1, 40, 40)
y = F.softmax(s.masked_fill(m == 0, float('-inf')), dim=-1) @ k
return y.transpose(1, 2).reshape(2, 40, 60)"""
FORMS = {
    "causal": reference(
        "return F.scaled_dot_product_attention(a, b, b, is_causal=True)",
        f"{N}(2, 3, 40, 24)",
        f"{N}(2, 3, 52, 24)",
    ),
    "heads side by side": reference(HEADS, *[f"{N}(2, 40, 60)"] * 2),
    "with a bias and a residual": reference(
        "return F.softmax(a @ b.transpose(-2, -1) / 4 + c, -1) @ b + a",
        f"{N}(2, 3, 40, 20)",
        f"{N}(2, 3, 40, 20)",
        f"{N}(3, 40, 40)",
    ),
    "rows that see nothing": reference(
        "return F.scaled_dot_product_attention(a, b, b, attn_mask=c > 1)",
        f"{N}(2, 3, 20, 20)",
        f"{N}(2, 3, 36, 20)",
        f"2 * {N}(20, 1) + torch.arange(36) / 18 - 1",
    ),
    "keys of given lengths": reference(
        "m = torch.arange(36)[None, :] < c[:, None]\nreturn F.scaled_dot_product_attention(a, b, b, attn_mask=m[:, None, None])",
        f"{N}(2, 3, 20, 20)",
        f"{N}(2, 3, 36, 20)",
        "torch.tensor([17, 36])",
    ),
    "a window before each query": reference(
        "d = torch.arange(40)[None, :] - torch.arange(40)[:, None]\n"
        "return F.scaled_dot_product_attention(a, b, b, attn_mask=(d <= 0) & (d > -9))",
        f"{N}(2, 3, 40, 20)",
        f"{N}(2, 3, 40, 20)",
    ),
    "a batch of three axes": reference(
        "return torch.bmm(F.softmax(torch.bmm(a, b.transpose(1, 2)), -1), b) * 2",
        f"{N}(5, 33, 20)",
        f"{N}(5, 47, 20)",
    ),
}
APART = {
    "its shares are an answer": "p = F.softmax(a @ b.transpose(-2, -1), -1)\nreturn p @ b, p",
    "its scores are read again": "s = a @ b.transpose(-2, -1)\nreturn F.softmax(s, -1) @ b, s.sum()",
    "the softmax is along queries": "return F.softmax(a @ b.transpose(-2, -1), -2) @ b",
    "a head of 300 numbers": "return F.scaled_dot_product_attention(a.repeat(1, 1, 1, 15), b.repeat(1, 1, 1, 15), b)",
}


LONGER = {
    "panels of keys that are skipped": reference(
        "return F.scaled_dot_product_attention(a, b, b, is_causal=True)",
        f"{N}(2, 151, 40)",
        f"{N}(2, 333, 40)",
    ),
    "keys that lie by columns": reference(
        "return torch.softmax(torch.matmul(a, b), -1) @ c",
        f"{N}(2, 30, 301)",
        f"{N}(2, 301, 100)",
        f"{N}(2, 100, 65)",
    ),
}


def shop_of(source: str, cards: Mapping[str, RecipeCard], name: str = "h200") -> Composer:
    target = find_target(name)
    return make_shop(source, target, Bench(source, {}).graph, suiting(cards, target, ("triton",)))


@pytest.mark.parametrize("form", FORMS)
def test_two_products_with_a_softmax_between_are_one_part(
    cards: Mapping[str, RecipeCard], form: str
) -> None:
    shop = shop_of(FORMS[form], cards)
    (part,) = [part for part in shop.cut(()) if part.pattern != "library"]
    assert part.pattern == "attention"
    assert part.anchors == {*shop.anchors}
    suited = {card.name for card in shop.recipes(part)}
    # To split the keys is a pass before, which few queries do not pay for.
    few = {"gpu-attention-split-half"} if part.dims["m"] < 32 else set()
    assert suited | few == {
        "gpu-attention-split-half",
        "gpu-attention-tiles",
        "gpu-attention-tiles-tf32x3",
    }
    assert not suited & few
    assert part.dims["masked"] == int(form not in ("with a bias and a residual", "a batch of three axes"))  # fmt: skip
    assert part.dims["empty"] == int(form in ("causal", "rows that see nothing", "keys of given lengths", "a window before each query"))  # fmt: skip


@pytest.mark.parametrize("form", APART)
def test_what_is_read_elsewhere_or_does_not_fit_stays_apart(
    cards: Mapping[str, RecipeCard], form: str
) -> None:
    shop = shop_of(reference(APART[form], *[f"{N}(2, 3, 30, 20)"] * 2), cards)
    patterns = [part.pattern for part in shop.cut(())]
    assert "attention" not in patterns
    assert "matmul" in patterns


def test_shares_that_are_turned_for_values_in_columns_are_attention(
    cards: Mapping[str, RecipeCard],
) -> None:
    forward = "s = F.softmax(torch.bmm(a.transpose(1, 2), b), -1)\nreturn torch.bmm(b, {})"
    for turned in ("s.transpose(1, 2)", "s.permute(0, -1, 1)", "s.mT"):
        shop = shop_of(reference(forward.format(turned), *[f"{N}(2, 20, 45)"] * 2), cards)
        patterns = [part.pattern for part in shop.cut(()) if part.pattern != "library"]
        assert patterns == ["attention", "pointwise"], turned
    # In another order it is no attention.
    source = reference(forward.format("s.permute(1, 2, 0)"), *[f"{N}(45, 20, 45)"] * 2)
    assert "attention" not in [part.pattern for part in shop_of(source, cards).cut(())]


def test_more_matrices_than_a_grid_has_place_for_are_left_to_the_library(
    cards: Mapping[str, RecipeCard],
) -> None:
    source = reference("return torch.softmax(a @ b.mT, -1) @ b", *["torch.zeros(66000, 17, 2)"] * 2)
    shop = shop_of(source, cards)
    products = [part for part in shop.cut(()) if part.pattern in ("attention", "matmul")]
    assert [shop.recipes(part) for part in products] == [[], []]


def test_two_attentions_share_a_mask(cards: Mapping[str, RecipeCard]) -> None:
    forward = """m = torch.ones(30, 30).tril() == 0
for _ in range(2):
    a = torch.tanh(F.softmax((a @ b.transpose(-2, -1)).masked_fill(m, float('-inf')), -1) @ b)
return a"""
    shop = shop_of(reference(forward, *[f"{N}(2, 3, 30, 20)"] * 2), cards)
    parts = [part for part in shop.cut(()) if part.pattern != "library"]
    assert [part.pattern for part in parts].count("attention") == 2
    assert parts[0].outputs[0] in parts[1].inputs
    # The same kernel does both: it reads its sizes.
    assert "\nkernel1 = kernel0\n" in shop.source(shop.complete((), {}))


def test_a_softmax_is_known_by_what_it_computes(cards: Mapping[str, RecipeCard]) -> None:
    written = "e = torch.exp(a - a.amax(-1, keepdim=True))\nreturn {}"
    for result, found in (
        ("e / e.sum(-1, keepdim=True)", True),
        ("e / (e.sum(-1, keepdim=True) + 1)", False),
        ("e / e.sum(-2, keepdim=True)", False),
        ("(2 * e) / e.sum(-1, keepdim=True)", False),
    ):
        shop = shop_of(reference(written.format(result), f"{N}(30, 30)"), cards)
        (name,) = shop.program.outputs
        assert (softmax_of(shop.program, name) is not None) is found, result


def test_few_launches_come_first_where_there_is_little_to_do(
    cards: Mapping[str, RecipeCard],
) -> None:
    shop, target = shop_of(FORMS["causal"], cards), find_target("h200")
    moment = Moment(
        round=0, seed=0, parent=None, history=(), diagnosis=Diagnosis(symptoms=(), lines=())
    )
    plan = start(shop, shop.base(), None)
    least = least_seconds(shop.program.graph, target.peak, target.bandwidth)
    found = list(proposals(shop, plan, moment, (), None, least))
    assert found[0].card.pattern == "attention"
    assert not found[0].plan["library"]
    # The same products and rows by kernels of their own are proposed too.
    (whole,) = [part for part in shop.cut(()) if part.pattern == "attention"]
    separate = [one.plan for one in found if apart(whole) in one.plan["library"]]
    assert separate
    assert {part["pattern"] for part in separate[0]["segments"].values()} == {"matmul", "rows"}
    assert "def kernel2" in shop.source(separate[0])


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote(DRY)
    yield zygote
    zygote.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h200", "mi300x"])
@pytest.mark.parametrize("form", FORMS)
def test_it_is_right_in_the_interpreter_and_compiles(
    cards: Mapping[str, RecipeCard], zygote: Zygote, tmp_path: Path, form: str, name: str
) -> None:
    pytest.importorskip("triton")
    shop = shop_of(FORMS[form], cards, name)
    problem: Any = load_problem(make_task(tmp_path, FORMS[form]))
    (part,) = [part for part in shop.cut(()) if part.pattern != "library"]
    judge = DryJudge(problem, find_target(name), seed=0, folder=tmp_path, zygote=zygote)
    try:
        for card in shop.recipes(part):
            choice = Choice(recipe=card.name, knobs=shop.knobs(part, card) or {})
            outcome = judge.judge(shop.source(shop.complete((), {part.id: choice})))
            assert isinstance(outcome, Checked), outcome
            assert outcome.unchecked == ""
            passes = ["kernel0_split"] if card.name == "gpu-attention-split-half" else []
            assert [kernel.name for kernel in outcome.kernels] == [*passes, "kernel0_kernel"]
    finally:
        judge.close()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS | LONGER)
def test_on_a_processor_strips_of_queries_are_right(
    cards: Mapping[str, RecipeCard], form: str
) -> None:
    name = "cpu-attention-strips"
    bench = Bench((FORMS | LONGER)[form], {})
    target = find_target("zen4")
    shop = make_shop(bench.source, target, bench.graph, suiting(cards, target, ("cpp",)))
    (part,) = [part for part in shop.cut(()) if part.pattern != "library"]
    assert part.dims["turned"] == int(form != "keys that lie by columns")
    key = shop.program.nodes[part.nodes[0]].operands[1]
    settings = [{"vectors": 2, "pack": 1}, {"vectors": 3, "pack": 1}, {"vectors": 1, "pack": 0}]
    for knobs in settings:
        choice = Choice(recipe=name, knobs=knobs)
        source = shop.source(shop.complete((), {part.id: choice}))
        if part.dims["turned"]:
            assert f"t_{key} = " not in source, "nobody turns keys but the kernel"
        ((own, eager),) = bench.errors(source)
        assert own <= 8 * eager + 2e-7, knobs


@pytest.mark.slow
def test_few_queries_are_left_to_products_that_read_once(cards: Mapping[str, RecipeCard]) -> None:
    source = reference(
        "return F.scaled_dot_product_attention(a, b, b)", f"{N}(2, 4, 20)", f"{N}(2, 50, 20)"
    )
    target = find_target("zen4")
    shop = make_shop(source, target, Bench(source, {}).graph, suiting(cards, target, ("cpp",)))
    assert "attention" not in [part.pattern for part in shop.cut(())]
