"""What real references, traced by torch, show of themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from traced import traced

from kb.records.patterns import load_patterns
from search.patterns.recognise import ReferenceTraits, State, read_program, recognise
from search.patterns.traits import TRAITS

STATE = State(device="cpu", language="cpp")
HEADS = "torch.rand(2, 4, 96, 32), torch.rand(2, 4, 96, 32), torch.rand(2, 4, 96, 32)"


def program(folder: Path, forward: str, inputs: str, init: str = "pass") -> ReferenceTraits:
    graph = traced(folder, forward, inputs, init)
    return read_program(
        "task", f"class Model:\n    def forward(x, y, z):\n        {forward}", graph
    )


def names(found: ReferenceTraits, state: State = STATE) -> set[str]:
    return {one.pattern.name for one in recognise(load_patterns(), found, state)}


CASES = [
    ("attention", HEADS, "return torch.softmax(x @ y.transpose(-1, -2), -1) @ z"),
    (
        "attention",
        HEADS,
        "s = x @ y.mT; e = torch.exp(s - s.amax(-1, keepdim=True)); return e / e.sum(-1, keepdim=True) @ z",
    ),
    (
        "causal-attention",
        HEADS,
        "m = torch.ones(96, 96, dtype=torch.bool).triu(1); "
        "return torch.softmax((x @ y.mT).masked_fill(m, float('-inf')), -1) @ z",
    ),
    (
        "window-attention",
        HEADS,
        "i = torch.arange(96); d = (i[:, None] - i[None, :]).abs(); "
        "return torch.softmax((x @ y.mT).masked_fill(d > 8, float('-inf')), -1) @ z",
    ),
    (
        "decode-attention",
        "torch.rand(2, 4, 1, 32), torch.rand(2, 4, 512, 32), torch.rand(2, 4, 512, 32)",
        "return F.scaled_dot_product_attention(x, y, z)",
    ),
    ("linear-attention", HEADS, "return x @ (y.mT @ z)"),
    (
        "normalization",
        "torch.rand(64, 512)",
        "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
    ),
    ("normalization", "torch.rand(64, 512)", "return F.layer_norm(x, (512,))"),
    ("softmax", "torch.rand(64, 512)", "return torch.softmax(x, -1)"),
    ("columns", "torch.rand(64, 48, 40)", "return x.sum(1)"),
    ("columns", "torch.rand(8, 16, 400)", "e = torch.exp(x); return e / e.sum(1, keepdim=True)"),
    ("long-rows", "torch.rand(4, 16384)", "return torch.softmax(x, -1)"),
    ("cross-entropy", "torch.rand(32, 500), torch.randint(0, 500, (32,))", "return F.cross_entropy(x, y)"),
    ("scan", "torch.rand(32, 400)", "return torch.cumsum(x, 1)"),
    ("shifted-scan", "torch.rand(32, 400)", "return torch.cumsum(x.flip(1), 1).flip(1)"),
    ("skinny-product", "torch.rand(4, 512), torch.rand(512, 1024)", "return x @ y"),
    ("many-small-products", "torch.rand(512, 8, 8), torch.rand(512, 8, 8)", "return x @ y"),
    ("symmetric-product", "torch.rand(300, 200)", "return x @ x.t()"),
    ("diagonal-operand", "torch.rand(200), torch.rand(200, 300)", "return torch.diag(x) @ y"),
    ("triangular-operand", "torch.rand(200, 200), torch.rand(200, 200)", "return torch.tril(x) @ y"),
    ("quantised-product", "torch.rand(8, 256), torch.randint(-9, 9, (256, 512), dtype=torch.int8)", "return x @ (y.float() * 0.1)"),
    ("gated-product", "torch.rand(64, 128), torch.rand(128, 256), torch.rand(128, 256)", "return F.silu(x @ y) * (x @ z)"),
    ("embedding-bag", "torch.randint(0, 900, (64, 8)), torch.rand(900, 32)", "return F.embedding(x, y).sum(1)"),
    ("segment-sum", "torch.rand(400, 32), torch.randint(0, 50, (400,))", "return torch.zeros(50, 32).index_add(0, y, x)"),
    ("histogram", "torch.randint(0, 50, (4000,))", "return torch.zeros(50).index_add(0, x, torch.ones(4000))"),
    ("top-k", "torch.rand(32, 400)", "return torch.topk(x, 5).values"),
    ("median", "torch.rand(32, 401)", "return torch.median(x, 1).values"),
    ("pairwise-distances", "torch.rand(60, 16), torch.rand(70, 16)", "return torch.cdist(x, y)"),
    ("elementwise-chain", "torch.rand(64, 512)", "return F.relu(x) * 2 + 1"),
    ("stencil", "torch.rand(2, 3, 40, 40)", "return x[:, :, :-2] + x[:, :, 1:-1] + x[:, :, 2:]"),
    ("pooling-of-blocks", "torch.rand(2, 3, 40, 40)", "return x.view(2, 3, 20, 2, 20, 2).mean((3, 5))"),
    ("window-pooling", "torch.rand(2, 3, 40, 40)", "return F.max_pool2d(x, 3, 1)"),
    ("global-pooling", "torch.rand(2, 3, 40, 40)", "return x.mean((2, 3))"),
    ("symmetric-product", "torch.rand(300, 200)", "return 2.0 * x @ x.t()"),
    ("matrix-vector-product", "torch.rand(400, 300), torch.rand(300), torch.rand(8, 300)", "return (x @ y).sum() * (z @ x.t())"),
    ("product-of-few-terms", "torch.rand(2, 3, 3), torch.rand(2, 3, 900)", "return torch.einsum('bij,bjn->bin', x, y)"),
    ("product", "torch.rand(200, 300), torch.rand(300, 100)", "return torch.einsum('ij,jk->ik', x, y)"),
    ("norm-gradient", "torch.rand(64, 512), torch.rand(64, 512)", "return x - y * (x * y).mean(-1, keepdim=True), (x * y).sum(0)"),
    ("overlap-add", "torch.rand(2, 16, 49)", "return F.fold(x, 16, 4, stride=2)"),
    ("padding", "torch.rand(2, 3, 40, 40)", "return F.pad(x, (2, 2, 2, 2), mode='reflect') * 2"),
    ("fourier-transform", "torch.rand(8, 256)", "return torch.fft.rfft(x).abs()"),
    ("linear-algebra", "torch.rand(8, 32, 32)", "return torch.linalg.inv(x)"),
    ("search-in-sorted", "torch.rand(4000), torch.rand(64)", "return y[torch.searchsorted(y, x).clamp(max=63)]"),
    ("triangle", "torch.rand(128, 128)", "return torch.tril(torch.exp(x)).sum(1)"),
    ("all-pairs", "torch.rand(300), torch.rand(300)", "return torch.tanh(x[:, None] - y[None, :])"),
    ("placement", "torch.rand(400, 32), torch.randint(0, 400, (16,)), torch.rand(16, 32)", "return x.index_copy(0, y, z)"),
    ("repeated-work", "torch.rand(64, 512)", "return torch.sigmoid(x) * 2 + torch.sigmoid(x)"),
    ("ragged-rows", "torch.rand(64, 512), torch.randint(1, 512, (64,))", "return x.masked_fill(torch.arange(512)[None] >= y[:, None], 0.0).sum(1)"),
    ("variance", "torch.rand(64, 512)", "return torch.std_mean(x, -1)[0]"),
    ("recurrent-layer", "torch.rand(8, 4, 16)", "return self.cell(x)[0]"),
    ("usual-rows-on-a-processor", "torch.rand(64, 512)", "return torch.nansum(x, -1)"),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "inputs", "forward"), CASES)
def test_a_computation_is_recognised_however_it_is_written(
    tmp_path: Path, expected: str, inputs: str, forward: str
) -> None:
    layer = "self.cell = nn.RNN(16, 16)" if "cell" in forward else "pass"
    assert expected in names(program(tmp_path, forward, inputs, layer))


ABSENT = [
    ("columns", "torch.rand(32, 400)", "return torch.topk(x, 5).values"),
    ("reduction-of-everything", "torch.rand(4000)", "return torch.cumsum(x, 0)"),
    ("dropout", "torch.rand(64, 512)", "return F.dropout(x, 0.5, False) * 2"),
    ("row-reduction", "torch.rand(64, 512), torch.rand(4)", "return torch.relu(x) * (y / y.sum())[0]"),
    ("attention", "torch.rand(64, 96, 32), torch.rand(32, 1)", "return (torch.softmax(self.score(x).mT, -1) @ x)"),
]  # fmt: skip


@pytest.mark.parametrize(("absent", "inputs", "forward"), ABSENT)
def test_what_is_small_or_only_looks_alike_is_not_recognised(
    tmp_path: Path, absent: str, inputs: str, forward: str
) -> None:
    found = program(tmp_path, forward, inputs, "self.score = nn.Linear(32, 1)")
    assert absent not in names(found)


def test_what_an_idea_says_is_asked_about() -> None:
    found = read_program("t", RECURRENT, None)
    said = State(
        device="gpu", language="triton", idea="Keep the largest value so far in registers."
    )
    assert "idea-of-a-running-maximum" in names(found, said)
    assert "idea-of-a-running-maximum" not in names(found, State(device="gpu", language="triton"))


def test_a_profile_weighs_patterns_in_place_of_the_estimate(tmp_path: Path) -> None:
    found = program(tmp_path, "return torch.softmax(x @ x.t(), -1)", "torch.rand(256, 256)")

    def share(name: str, **shares: float) -> float:
        state = State(device="gpu", language="triton", shares=shares)
        shown = {one.pattern.name: one for one in recognise(load_patterns(), found, state)}
        return shown[name].share

    assert share("softmax", softmax=0.9, matmul=0.1) == 0.9
    assert share("softmax") < 0.5


CONVOLUTIONS = [
    ("convolution", "nn.Conv2d(8, 16, 5)"),
    ("three-by-three-convolution", "nn.Conv2d(8, 16, 3)"),
    ("depthwise-convolution", "nn.Conv2d(8, 8, 3, groups=8)"),
    ("pointwise-convolution", "nn.Conv2d(8, 16, 1)"),
    ("grouped-convolution", "nn.Conv2d(8, 16, 3, groups=2)"),
    ("dilated-convolution", "nn.Conv2d(8, 16, 3, dilation=2)"),
    ("transposed-convolution", "nn.ConvTranspose2d(8, 16, 2, stride=2)"),
]


@pytest.mark.parametrize(("expected", "layer"), CONVOLUTIONS)
def test_forms_of_convolutions_are_told_apart(tmp_path: Path, expected: str, layer: str) -> None:
    found = program(tmp_path, "return self.c(x)", "torch.rand(2, 8, 20, 20)", f"self.c = {layer}")
    shown = names(found)
    assert expected in shown
    others = {name for name, _ in CONVOLUTIONS} - {expected, "convolution"}
    assert not shown & others


RECURRENT = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x, a):
        h = torch.zeros_like(x[:, 0])
        out = []
        for t in range(x.shape[1]):
            h = a * h + x[:, t]
            out.append(h)
        return torch.stack(out, 1)
"""
SUMMED = RECURRENT.replace("h = a * h + x[:, t]", "h = h + x[:, t]")


def test_a_loop_that_carries_a_state_is_a_recurrence_and_a_sum_is_none() -> None:
    assert read_program("t", RECURRENT, None).text.loops[0].state == ("h",)
    assert read_program("t", SUMMED, None).text.loops[0].state == ()


STEPS = """
        h = torch.zeros_like({first})
        out = []
        for t in range(12):
            h = 0.9 * h + torch.tanh({step})
            out.append(h)
        return torch.stack(out, 1)
"""


@pytest.mark.parametrize(
    ("step", "along"), [("x[:, t]", True), ("x[..., t]", True), ("y[t]", False), ("y[:, t]", False)]
)
def test_a_recurrence_along_rows_is_told_from_one_across_them(
    tmp_path: Path, step: str, along: bool
) -> None:
    body = STEPS.format(first=step.replace("t]", "0]"), step=step).strip()
    body = body if "x" in step else f"y = x.view(64, 16, 3)\n        {body}"
    found = names(program(tmp_path, body, "torch.rand(64, 48)"))
    assert "linear-recurrence" in found
    assert ("recurrence-along-rows" in found) is along


def test_what_is_not_there_is_not_said(tmp_path: Path) -> None:
    found = names(program(tmp_path, "return torch.relu(x)", "torch.rand(64, 512)"))
    assert not found & {"attention", "softmax", "convolution", "product", "scan", "normalization"}


def test_a_pattern_says_what_shows_it_and_what_it_costs(tmp_path: Path) -> None:
    found = program(tmp_path, "return torch.softmax(x, -1) * x.exp()", "torch.rand(64, 512)")
    by_name = {one.pattern.name: one for one in recognise(load_patterns(), found, STATE)}
    softmax = by_name["softmax"]
    assert "softmax" in softmax.shown
    assert 0 < softmax.share < 1


FAULTS = [
    ("crash-on-a-processor", State(outcome="crashed", language="cpp", message="died of SIGSEGV")),
    ("triton-error", State(outcome="build_failed", language="triton", device="gpu")),
    ("not-a-number", State(outcome="wrong", message="NaN in 12 of 64 rows")),
    ("hang", State(outcome="timed_out")),
    ("out-of-resources", State(message="out of resource: shared memory, Required: 300000")),
    ("symptom-bank-conflicts", State(symptoms=("bank-conflicts",))),
]


@pytest.mark.parametrize(("expected", "state"), FAULTS)
def test_faults_and_symptoms_are_recognised(expected: str, state: State) -> None:
    assert expected in names(read_program("t", RECURRENT, None), state)
    assert expected not in names(read_program("t", RECURRENT, None), STATE)


def test_every_trait_that_a_pattern_asks_for_is_one_that_is_looked_for() -> None:
    asked = {
        condition.partition(":")[2].strip()
        for one in load_patterns()
        for condition in (*one.when.all, *one.when.any, *one.when.none)
        if condition.startswith("is:")
    }
    assert asked <= set(TRAITS)


def test_every_trait_that_is_found_has_a_meaning() -> None:
    folder = Path(__file__).parents[3] / "search/patterns/traits"
    written = {
        name
        for path in folder.glob("*.py")
        for name in re.findall(r'yield \(?"([a-z0-9-]+)"', path.read_text())
    }
    assert written <= set(TRAITS)
