"""Kernels made of recipes compute what the reference does, in shapes that no example has."""

from __future__ import annotations

from typing import Any

import pytest
from recipe_bench import Bench, reference

N = "torch.randn"
PAIR = (f"{N}(9, 33)", f"{N}(9, 33)")
GRAPHS = {
    "softmax of one-element rows": reference("return torch.softmax(a, -1)", f"{N}(7, 1)"),
    "softmax of scaled odd rows": reference("return torch.softmax(a * 30, -1)", f"{N}(5, 37)"),
    "softmax over channels": reference("return torch.softmax(a, 1)", f"{N}(2, 5, 7, 3)"),
    "log-softmax over the batch": reference("return F.log_softmax(a, 0)", f"{N}(50, 130)"),
    "log-sum-exp in the middle": reference("return torch.logsumexp(a, 1)", f"{N}(4, 70, 17)"),
    "layer norm around a thousand": reference(
        "return self.n(a)", f"{N}(3, 5, 33) + 1000", init="self.n = nn.LayerNorm(33)"
    ),
    "group norm of odd planes": reference(
        "return F.relu(self.n(a))", f"{N}(2, 12, 5, 7)", init="self.n = nn.GroupNorm(4, 12)"
    ),
    "instance norm far from zero": reference(
        "return self.n(a)", f"{N}(2, 3, 9, 11) + 100", init="self.n = nn.InstanceNorm2d(3)"
    ),
    "batch norm of odd planes": reference(
        "return F.hardswish(self.n(a))",
        f"{N}(2, 6, 9, 11)",
        init="self.n = nn.BatchNorm2d(6)\nself.n.running_mean.normal_()\nself.n.running_var.uniform_(0.5, 2)",
    ),
    "RMS norm over channels": reference(
        "return a / torch.sqrt(torch.mean(a ** 2, dim=1, keepdim=True) + 1e-5)", f"{N}(2, 6, 9, 11)"
    ),
    "norm of everything": reference('return a / torch.norm(a, p="fro")', f"{N}(5, 7, 9)"),
    "standardised as a whole": reference("return (a - a.mean()) / a.std()", f"{N}(64, 999) + 50"),
    "mean over planes": reference("return a.mean((2, 3)) * 2", f"{N}(4, 5, 6, 7)"),
    "spreads both ways": reference(
        "return a.var(-1, keepdim=True) * 2, a.std(0)", f"{N}(40, 65) + 1000"
    ),
    "moments together": reference(
        "v, m = torch.var_mean(a, 1)\ns, n = torch.std_mean(a, (0, 2), correction=0, keepdim=True)\n"
        "return v + m, (a - n) / s, torch.std_mean(a)[1], torch.var_mean(a, -1, unbiased=False)[0]",
        f"{N}(4, 50, 65)",
    ),
    "sums of what is a number": reference(
        "b = torch.where(a > 1.5, float('nan'), a)\nreturn torch.nansum(b, -1), torch.nanmean(b, 0), torch.nanmean(b)",
        f"{N}(40, 65)",
    ),
    "extremes": reference("return a.amax(-1) - a.amin(-1)", f"{N}(4, 50, 65)"),
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
    "activations": reference(
        "return (F.elu(a) + F.selu(a) + F.leaky_relu(a, 0.2) + F.softplus(a) + F.mish(a) + F.hardtanh(a)"
        " + F.relu6(a) + F.hardsigmoid(a) + torch.tanh(a) + F.logsigmoid(a) + F.softsign(a)"
        " + F.celu(a, 1.3) + F.gelu(a, approximate='tanh') + torch.erf(a) + F.silu(a))",
        f"{N}(1001) * 5",
    ),
    "arithmetic": reference(
        "return (a.abs().pow(0.3) + a ** 3 + torch.rsqrt(a.abs() + 1) + torch.sin(a) + 2 ** a"
        " + torch.log1p(a.abs()) + torch.expm1(a) + torch.where(a > 0.3, a * 2, a.abs()) + (a < 0) * a"
        " + (1 - a) / 3 + torch.add(a, a, alpha=0.5) + a.clamp(min=-0.5) + torch.maximum(a, -a))",
        f"{N}(333)",
    ),
    "the sigmoid's logarithm far below zero": reference(
        "return F.logsigmoid(a)", f"{N}(1001) * 200"
    ),
    "powers without end": reference(
        "return torch.sigmoid(a) ** float('inf') + (a.abs() + 1.5) ** -float('inf')", f"{N}(333)"
    ),
    "conditions of conditions": reference(
        "return torch.where((a > 0.3) | ~(a > -2) & (a < 1), a * 2, a.abs()) * torch.logical_or(a < 1, b > 0).float()",
        f"{N}(33, 70)",
        f"{N}(1, 70)",
    ),
    "what is written to after it was read": reference(
        "x = a * 2\ny = torch.sort(x, -1)[0]\nx.relu_()\nz = a.clone()\nw = z.mul_(3)\nz.add_(1)\nreturn x + y + w + a",
        f"{N}(9, 33)",
    ),
    "truth values that leave": reference(
        "return torch.where((a > 0) & (a < 1), a, 0.5) * 3, ((a > 0) & (a < 1)).double().sum()",
        f"{N}(9, 33)",
    ),
    "a condition on a product and on memory": reference(
        "y = self.l(a)\nreturn torch.where((y > 0) | (b > 0), y, b)",
        f"{N}(9, 33)",
        f"{N}(9, 17)",
        init="self.l = nn.Linear(33, 17)",
    ),
    "a condition behind a convolution, used twice": reference(
        "y = self.c(a)\nm = (y > 0) & (y < 1)\nreturn torch.where(m, y, 0.0), m.float().sum((2, 3))",
        f"{N}(2, 3, 12, 12)",
        init="self.c = nn.Conv2d(3, 8, 3)",
    ),
    "losses of pairs": reference(
        "return F.mse_loss(a, b) + F.smooth_l1_loss(a, b, beta=0.7), F.huber_loss(a, b, delta=0.5, reduction='sum')",
        *PAIR,
    ),
    "losses of chances": reference(
        "return F.binary_cross_entropy_with_logits(a, torch.sigmoid(b))"
        " + F.binary_cross_entropy(torch.sigmoid(a * 0.1), torch.sigmoid(b))"
        " + F.kl_div(F.log_softmax(a, -1), torch.softmax(b, -1), reduction='batchmean')",
        *PAIR,
    ),
    "losses of rows": reference(
        "return F.cosine_similarity(a, b, dim=1), F.triplet_margin_loss(a, b, a * 2, margin=0.5)",
        *PAIR,
    ),
    "as many of one loss as its nodes": reference(
        "found = [F.mse_loss(a, b * k) for k in (1.0, 2.0, 3.0, 4.0, 5.0)]\nreturn sum(found) * a",
        *PAIR,
    ),
    "an in-place activation": reference(
        "return self.r(self.c(a)) + 1",
        f"{N}(1, 3, 8, 8)",
        init="self.c = nn.Conv2d(3, 4, 3)\nself.r = nn.ReLU(inplace=True)",
    ),
    "convolution, GELU, softmax": reference(
        "return torch.softmax(F.gelu(self.c(a)), -1)",
        f"{N}(1, 3, 13, 13)",
        init="self.c = nn.Conv2d(3, 7, 3)",
    ),
    "normalised convolution, pooled and scaled": reference(
        "return F.max_pool2d(torch.tanh(self.b(self.c(a))), 2) * self.s",
        f"{N}(2, 3, 12, 12)",
        init="self.c = nn.Conv2d(3, 6, 3)\nself.b = nn.BatchNorm2d(6)\nself.s = nn.Parameter(torch.randn(6, 1, 1))",
    ),
    "average pooling with borders": reference(
        "return F.avg_pool2d(torch.tanh(a), 3, 2, 1, count_include_pad=False) + 1",
        f"{N}(2, 3, 11, 40)",
    ),
    "average pooling that counts its padding": reference(
        "return F.avg_pool2d(a, 3, 2, 1)", f"{N}(1, 2, 11, 40)"
    ),
    "attention": reference(
        "q, k, v = self.q(a), self.k(a), self.v(a)\n"
        "return torch.softmax(q @ k.transpose(-2, -1) / 3.0, -1) @ v",
        f"{N}(2, 17, 12)",
        init="self.q = nn.Linear(12, 12)\nself.k = nn.Linear(12, 12)\nself.v = nn.Linear(12, 12)",
    ),
    "a small perceptron of batch one": reference(
        "return self.n(a)",
        f"{N}(1, 20)",
        init="self.n = nn.Sequential(nn.Linear(20, 31), nn.GELU(), nn.Linear(31, 7), nn.Softmax(-1))",
    ),
    "constants": reference(
        "return a * torch.tensor([1.0, 2.0, 3.0]) + torch.ones(3)", f"{N}(8, 3)"
    ),
}


def choices(bench: Bench, library: tuple[str, ...], turn: int) -> dict[str, Any]:
    """Return recipe number `turn` for every segment, and every second knob off its default."""
    picked = {}
    for part in bench.parts(library):
        if part.pattern == "library":
            continue
        fits = bench.fits(part)
        card = fits[turn % len(fits)]
        knobs = card.defaults()
        if turn % 2:
            last = {n: getattr(k, "choices", (k,))[-1] for n, k in card.knobs.items()}
            knobs |= {n: v for n, v in last.items() if isinstance(v, (bool, int, str))}
        picked[part.id] = (card, knobs)
    return picked


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
def test_the_kernels_of_a_graph_are_right(name: str, cards: Any) -> None:
    bench = Bench(GRAPHS[name], cards)
    anchors = tuple(p.anchor for p in bench.parts() if p.pattern in ("conv", "matmul") and p.anchor)
    sources = {
        bench.candidate(choices(bench, library, turn), library)
        for library in {(), anchors}
        for turn in range(2)
    }
    for source in sources:
        for own, eager in bench.errors(source):
            assert own <= 8 * eager + 2e-7, source


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["rows", "pointwise", "pool"])
def test_every_recipe_is_right_with_every_knob(pattern: str, cards: Any) -> None:
    sources = {
        "rows": reference("return F.softmax(a * 3, -1) * self.w", f"{N}(9, 150)",
                          init="self.w = nn.Parameter(torch.randn(150))"),
        "pointwise": reference("return torch.sigmoid(a + self.w)", f"{N}(9, 150)",
                               init="self.w = nn.Parameter(torch.randn(150))"),
        "pool": reference("return F.max_pool2d(a * 2, 3, 2, 1)", f"{N}(2, 3, 11, 50)"),
    }  # fmt: skip
    bench = Bench(sources[pattern], cards)
    (part,) = bench.parts()
    assert part.pattern == pattern
    for card in bench.fits(part):
        for name, knob in card.knobs.items():
            value = getattr(knob, "choices", (0,))[-1]
            text = bench.candidate({part.id: (card, {**card.defaults(), name: value})}, ())
            ((own, eager),) = bench.errors(text)
            assert own <= 8 * eager + 2e-7, (card.name, name)
