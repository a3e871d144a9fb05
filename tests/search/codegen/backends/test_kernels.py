"""Kernels made of GPU recipes compute what the reference does, in shapes that no example has."""

from __future__ import annotations

import pytest
from gpu_bench import candidates, interpret, problem_of, triton_cards, workshop
from recipe_bench import reference

from search.codegen.library import RecipeCard

N = "torch.randn"
PAIR = (f"{N}(9, 33)", f"{N}(9, 33)")
GRAPHS = {
    "softmax of one-element rows": reference("return torch.softmax(a, -1) - a", f"{N}(7, 1)"),
    "softmax of scaled odd rows": reference(
        "return torch.softmax(a * b, -1)", f"{N}(5, 37)", f"{N}(5, 1)"
    ),
    "softmax of long rows": reference("return torch.softmax(a, -1)", f"{N}(3, 2050)"),
    "softmax over channels": reference("return torch.softmax(a, 1)", f"{N}(2, 5, 7, 3)"),
    "log-softmax over the batch": reference("return F.log_softmax(a, 0)", f"{N}(70, 13)"),
    "log-sum-exp in the middle": reference("return torch.logsumexp(a, 1)", f"{N}(2, 7, 5)"),
    "layer norm of planes": reference(
        "return self.n(a) + a", f"{N}(3, 4, 6, 11)", init="self.n = nn.LayerNorm((4, 6, 11))"
    ),
    "group norm of odd planes": reference(
        "return F.relu(self.n(a))", f"{N}(2, 12, 5, 7)", init="self.n = nn.GroupNorm(4, 12)"
    ),
    "instance norm": reference(
        "return self.n(a)", f"{N}(2, 3, 9, 11)", init="self.n = nn.InstanceNorm2d(3)"
    ),
    "batch norm of odd planes": reference(
        "return F.hardswish(self.n(a))",
        f"{N}(2, 6, 9, 11)",
        init="self.n = nn.BatchNorm2d(6).eval()\nself.n.running_mean.normal_()",
    ),
    "RMS norm over channels": reference(
        "return a / torch.sqrt(torch.mean(a ** 2, dim=1, keepdim=True) + 1e-5)", f"{N}(2, 6, 9, 11)"
    ),
    "norm of everything": reference('return a / torch.norm(a, p="fro")', f"{N}(300, 301)"),
    "one layer over few long rows": reference(
        "return self.n(a)", f"{N}(2, 90, 401)", init="self.n = nn.LayerNorm((90, 401))"
    ),
    "spreads both ways": reference("return a.var(-1, keepdim=True) * 2, a.std(0)", f"{N}(40, 65)"),
    "sums of deep columns": reference("return a.sum(1) + 1", f"{N}(2, 1000, 40)"),
    "extremes": reference("return a.amax(-1) - a.amin(-1)", f"{N}(2, 5, 17)"),
    "broadcast three ways": reference("return a * b + c", f"{N}(4, 1, 5)", f"{N}(3, 1)", f"{N}(1)"),
    "two results": reference("x = a + 1\ny = x * 2\nreturn x, y", f"{N}(13, 7)"),
    "a small costly operand": reference(
        "return a * torch.exp(self.s) + torch.tanh(self.s).view(1, -1)",
        f"{N}(64, 6)",
        init="self.s = nn.Parameter(torch.randn(6))",
    ),
    "a value that is used inside and outside": reference(
        "y = self.l(a)\nreturn F.relu(y), y.mean()", f"{N}(5, 9)", init="self.l = nn.Linear(9, 11)"
    ),
    "a parameter that is a strided view": reference(
        "return a * self.w", f"{N}(5, 7)", init="self.w = nn.Parameter(torch.randn(7, 5).t())"
    ),
    "constants": reference(
        "return a * torch.tensor([1.0, 2.0, 3.0]) + torch.ones(3)", f"{N}(8, 3)"
    ),
    "truth values from memory": reference(
        "return torch.where(b, a, -a) * (a > 0.5)", f"{N}(8, 3)", f"{N}(8, 3) > 0"
    ),
    "pooled behind the library": reference(
        "return F.max_pool2d(torch.tanh(self.c(a)), 2) * self.s",
        f"{N}(2, 3, 12, 12)",
        init="self.c = nn.Conv2d(3, 6, 3)\nself.s = nn.Parameter(torch.randn(6, 1, 1))",
    ),
    "average pooling with borders": reference(
        "return F.avg_pool2d(torch.tanh(a), 3, 2, 1, count_include_pad=False) + 1",
        f"{N}(2, 3, 11, 13)",
    ),
    "average pooling that counts its padding": reference(
        "return F.avg_pool2d(a, 3, 2, 1)", f"{N}(1, 2, 11, 13)"
    ),
    "running sums of what is masked": reference(
        "return torch.cumsum(F.relu(a) * b, 1) * 2", f"{N}(5, 70)", f"{N}(5, 70) > 0"
    ),
    "running products in the middle": reference("return torch.cumprod(a, 1)", f"{N}(5, 20, 3)"),
    "cross-entropy": reference(
        "return F.cross_entropy(a, b)", f"{N}(40, 33)", "torch.randint(0, 33, (40,))"
    ),
    "cross-entropy of many classes": reference(
        "return F.cross_entropy(a, b)", f"{N}(3, 2100)", "torch.randint(0, 2100, (3,))"
    ),
    "cross-entropy that leaves samples out": reference(
        "return F.cross_entropy(a, b, ignore_index=2, reduction='sum'), F.nll_loss(a, b, ignore_index=3)",
        f"{N}(40, 7)",
        "torch.randint(0, 7, (40,))",
    ),
    "extremes whose places nobody asks for": reference(
        "return torch.max(a, 1)[0] - torch.min(a, 1, keepdim=True).values.squeeze(1)", f"{N}(5, 17)"
    ),
    "similarity and triplets": reference(
        "return F.cosine_similarity(a, b, dim=1), F.triplet_margin_loss(a, b, a * 2, margin=0.5)",
        *PAIR,
    ),
    "squared and absolute errors": reference("return F.mse_loss(a, b) + F.l1_loss(a, b)", *PAIR),
    "errors with a knee": reference(
        "return F.smooth_l1_loss(a, b, beta=0.7) + F.huber_loss(a, b, delta=0.5, reduction='sum')",
        *PAIR,
    ),
    "binary cross-entropies": reference(
        "return F.binary_cross_entropy_with_logits(a, torch.sigmoid(b))"
        " + F.binary_cross_entropy(torch.sigmoid(a * 0.1), torch.sigmoid(b))",
        *PAIR,
    ),
    "divergence": reference(
        "return F.kl_div(F.log_softmax(a, -1), torch.softmax(b, -1), reduction='batchmean')", *PAIR
    ),
}
FUNCTIONS = {
    "units": (
        "F.elu(a) + F.selu(a) + F.leaky_relu(a, 0.2)",
        "F.softplus(a) + F.softplus(a, 2.0, 5.0)",
        "F.mish(a)",
        "F.hardtanh(a) + F.relu6(a) + F.hardsigmoid(a) + F.softsign(a)",
        "torch.tanh(a)",
        "F.logsigmoid(a)",
        "F.celu(a, 1.3) + F.gelu(a, approximate='tanh')",
        "F.gelu(a)",
        "F.silu(a) + torch.sigmoid(a)",
    ),
    "functions": (
        "torch.erf(a)",
        "torch.sin(a) * torch.cos(a)",
        "torch.log1p(a.abs()) + torch.log(a.abs() + 0.1) + torch.log2(a.abs() + 1)",
        "torch.expm1(a.clamp(-5, 5))",
        "torch.atan(a)",
        "torch.sinh(a.clamp(-5, 5)) + torch.cosh(a.clamp(-5, 5))",
        "torch.floor(a) + torch.ceil(a * 0.5)",
    ),
    "arithmetic": (
        "(a.abs() + 0.1).pow(0.3) + a ** 3",
        "(a.abs() + 0.1) ** -2.5 + 2 ** a.clamp(-5, 5)",
        "torch.rsqrt(a.abs() + 1) + (a.abs() + 1) ** -2",
        "torch.where(a > 0.3, a * 2, a.abs()) + (1 - a) / 3 + torch.add(a, a, alpha=0.5)",
        "torch.where((a > 0.3) & (a < 2) | ~(a > -1), a, -a) * (a > 1).float()",
        "a.clamp(min=-0.5) + torch.maximum(a, -a) + torch.lerp(a, a * 2, 0.3)",
    ),
    "whole numbers": (
        "torch.sign(a) + torch.trunc(a) * 0.5 + torch.frac(a)",
        "torch.round(a * 2.5) + torch.round(torch.floor(a) / 2)",
        "torch.remainder(a, 0.7) + torch.fmod(a, -1.3)",
        "torch.fmod(a * 1e20, 0.37)",
        "torch.floor_divide(a, 0.3) + torch.div(a, -0.7, rounding_mode='trunc')",
        "torch.div(torch.floor(a), torch.ceil(a * 0.5), rounding_mode='floor').nan_to_num()",
    ),
    "angles": (
        "torch.atan2(a, a.flip(0))",
        "torch.asin(a.clamp(-1, 1)) + torch.arccos(a.clamp(-0.99, 0.99))",
        "torch.asinh(a) + torch.acosh(a.abs() + 1)",
        "torch.atanh(a.clamp(-0.9, 0.9)) + torch.sinc(a)",
        "torch.deg2rad(a) + torch.rad2deg(a)",
    ),
    "of two": (
        "torch.hypot(a, a.flip(0)) + torch.hypot(a * 1e30, a * 1e30) * 1e-30",
        "torch.logaddexp(a, a.flip(0)) + torch.xlogy(torch.relu(a), a.abs())",
        "torch.copysign(a.flip(0), a) + torch.heaviside(torch.relu(a), a)",
        "torch.fmax(a, a.flip(0)) - torch.fmin(a, a * 2)",
        "F.hardshrink(a) + F.softshrink(a, 0.2) + F.tanhshrink(a)",
        "torch.multiply(torch.divide(a, 3), torch.negative(a)) + torch.subtract(a, 1, alpha=2) + torch.clip(a, -1, 1)",
        "torch.where(torch.logical_xor(a > 0, a < 1), a, -a) + torch.logit(a.abs().clamp(0.01, 0.99))",
    ),
    "powers of what has no end": (
        "torch.where(a.abs() < 1, a, a * float('inf')) ** 0",
        "(torch.where(a.abs() < 1, a.abs(), a * float('inf')) ** 2.5).clamp(max=9.0)",
    ),
}
GRAPHS |= {
    name: reference(f"return {', '.join(texts)}", f"{N}(333) * 5")
    for name, texts in FUNCTIONS.items()
}
EVERY = ("gpu-rows-on-chip", "gpu-columns-on-chip", "gpu-pointwise-fused")


@pytest.fixture(scope="module")
def faults(
    cards: dict[str, RecipeCard], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """What the interpreter says of every graph: one process for all of them."""
    cases = {}
    known = triton_cards(cards)
    for name, source in GRAPHS.items():
        shop = workshop(source, problem_of(source, tmp_path_factory.mktemp("case")), known)
        cases[name] = (source, candidates(shop, EVERY))
        assert cases[name][1], name
    return interpret(cases)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_the_kernels_of_a_graph_are_right(name: str, faults: dict[str, list[str]]) -> None:
    assert faults[name] == []
