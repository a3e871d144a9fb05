"""Candidates made of torch.compile's code, built and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from dry import make_task
from recipe_bench import Bench, load, reference

from kb.app.queries import find_target
from kb.records.schema import TargetRecord
from search.attempt import Attempt, Diagnosis, Draft, Idea, Moment
from search.codegen.applicability import make_shop, suiting
from search.codegen.inductor.process import capture, device_of
from search.codegen.inductor.proposals import between, openings, replacements, whole
from search.codegen.inductor.seed import CompilerSeed
from search.codegen.library import RecipeCard
from search.codegen.plan import Choice
from search.codegen.render import Unfit
from search.costs.trace import operator_graph
from search.judging.dryrun.judge import DryJudge
from search.outcome import Checked, Passed, Ratio
from search.reference import load_problem
from search.sandbox.fork_server import DRY
from search.sandbox.zygote import Zygote

BLOCK = reference(
    "x = self.p(F.relu(self.c(a)))\nreturn x, F.gelu(self.l(x.flatten(2).mean(1)))",
    "torch.randn(2, 3, 12, 12)",
    init="self.c = nn.Conv2d(3, 8, 3)\nself.p = nn.BatchNorm2d(8)\nself.l = nn.Linear(100, 20)\nself.eval()",
)


class Case:
    def __init__(self, source: str, cards: Mapping[str, RecipeCard], target: TargetRecord) -> None:
        self.bench = Bench(source, dict(cards))
        suited = suiting(cards, target, ("cpp",))
        shop = make_shop(source, target, self.bench.graph, suited)
        self.seed = CompilerSeed(shop, source, self.bench.graph)


@pytest.fixture(scope="module")
def case(cards: Mapping[str, RecipeCard], target: TargetRecord) -> Case:
    return Case(BLOCK, cards, target)


@pytest.mark.slow
def test_the_compilers_code_is_a_program_without_the_compiler_that_is_right(case: Case) -> None:
    (found,) = whole(case.seed)
    text = case.seed.source(found.plan)
    assert "torch.compile(" not in text
    assert "_inductor." not in text.replace("_inductor.cpp_fused", "")
    assert 'self._modules["c"]._parameters["weight"]' in text
    for mine, eager in case.bench.errors(text):
        assert mine <= 8 * eager + 1e-6


@pytest.mark.slow
def test_inputs_with_gaps_are_compiled_as_the_judge_gives_them(
    cards: Mapping[str, RecipeCard], target: TargetRecord
) -> None:
    source = reference("return F.relu(a) * 2 + 1", "torch.randn(64, 96)[:, :64]")
    case = Case(source, cards, target)
    (found,) = whole(case.seed)
    given = case.bench.inputs[0].clone()
    answer = load(case.seed.source(found.plan)).ModelNew()(given)
    torch.testing.assert_close(answer, torch.relu(given) * 2 + 1)


@pytest.mark.slow
def test_a_part_is_replaced_by_a_recipe_and_the_rest_stays_the_compilers(case: Case) -> None:
    found = next(openings(case.seed))
    assert found.focus is not None
    assert list(found.plan["segments"]) == [found.focus]
    assert "% of the cost" in found.note
    text = case.seed.source(found.plan)
    assert "INDUCTOR_SOURCE" in text
    assert "CPP_SOURCE" in text
    for mine, eager in case.bench.errors(text):
        assert mine <= 8 * eager + 1e-6


def test_dropout_that_drops_nothing_does_not_take_attention_apart(
    cards: Mapping[str, RecipeCard], target: TargetRecord
) -> None:
    source = reference(
        "p = self.d(F.softmax(a @ b.transpose(-2, -1) * 0.2, -1))\nreturn F.layer_norm(a, [48]), p @ b",
        *["torch.randn(2, 64, 48)"] * 2,
        init="self.d = nn.Dropout(0.0)",
    )
    case = Case(source, cards, target)
    (found,) = between(case.seed)
    assert "attention" in {part["pattern"] for part in found.plan["segments"].values()}
    text = case.seed.source(found.plan)
    assert "cpu-attention-strips" in text
    for mine, eager in case.bench.errors(text):
        assert mine <= 8 * eager + 1e-6


def test_what_follows_a_compiled_parent_keeps_its_recipes(case: Case) -> None:
    first = next(openings(case.seed))
    outcome = Passed(
        seconds=1.0, samples=9, speedup={"eager": Ratio(ratio=2, low=2, high=2)}, max_error=0, allowed_error=1
    )  # fmt: skip
    parent = Attempt(
        number=1, parent=None, round=0, branch=0, idea=Idea(title="t", text="", category=""),
        draft=Draft(source="", plan=first.plan), outcome=outcome,
    )  # fmt: skip
    moment = Moment(
        round=1, seed=1, parent=parent, history=(parent,), diagnosis=Diagnosis(symptoms=(), lines=())
    )  # fmt: skip
    following = list(replacements(case.seed, moment))
    assert following
    for one in following:
        assert one.focus != first.focus or one.card.name != first.card.name
        if one.focus != first.focus:
            assert first.focus in one.plan["segments"]


def test_the_library_forbidden_its_calls_are_refused(case: Case) -> None:
    shop = case.seed.shop
    library = shop.library
    shop.library = False
    try:
        assert "library" in CompilerSeed(shop, BLOCK, case.bench.graph).refusal
    finally:
        shop.library = library


def test_what_torch_compile_cannot_take_is_a_reason_in_words() -> None:
    source = reference("return a * 2 if float(a.sum()) > 0 else a", "torch.randn(4)")
    shop: Any = SimpleNamespace(library=True)
    graph: Any = None  # neither is read
    assert CompilerSeed(shop, source, graph).refusal


def test_code_for_this_processor_is_not_judged_on_another_machine(case: Case) -> None:
    assert "elsewhere" in CompilerSeed(case.seed.shop, BLOCK, case.bench.graph, here=False).refusal


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "forward", "left"),
    [(8192, "torch.relu(self.l(a))", True), (64, "F.gelu(self.l(a)) * 2", False)],
)
def test_on_a_gpu_code_that_leaves_all_work_to_the_library_is_no_candidate(
    cards: Mapping[str, RecipeCard], width: int, forward: str, left: bool
) -> None:
    gpu_target = find_target("h200")
    source = reference(
        f"return {forward}",
        f"torch.randn(2048, {width})",
        init=f"self.l = nn.Linear({width}, 2048)",
    )
    shop = make_shop(
        source, gpu_target, Bench(source, {}).graph, suiting(cards, gpu_target, ("triton",))
    )
    seed = CompilerSeed(shop, source, Bench(source, {}).graph, device_of(gpu_target))
    assert not seed.refusal
    assert bool(seed.beside) is left
    assert bool([*whole(seed)]) is not left


TRAINED = reference(
    "return F.relu_(self.p(self.c(a))).mean((2, 3))",
    "torch.randn(2, 3, 12, 12)",
    init="self.c = nn.Conv2d(3, 20, 3)\nself.p = nn.BatchNorm2d(20)",
)


def gpu_seed(
    source: str, cards: Mapping[str, RecipeCard], folder: Path, name: str = "h200"
) -> CompilerSeed:
    target = find_target(name)
    graph = operator_graph(load_problem(make_task(folder, source)))
    shop = make_shop(source, target, graph, suiting(cards, target, ("triton", "cuda")))
    return CompilerSeed(shop, source, graph, device_of(target))


@pytest.fixture(scope="module")
def dry_outcome() -> Iterator[Callable[[str, str, Path], Checked]]:
    """Return a function that says what a dry run says of a candidate that is right."""
    zygote = Zygote(DRY)

    def judged(source: str, text: str, folder: Path, name: str = "h200") -> Checked:
        problem = load_problem(make_task(folder, source))
        judge = DryJudge(problem, find_target(name), seed=0, folder=folder, zygote=zygote)
        try:
            outcome = judge.judge(text)
        finally:
            judge.close()
        assert isinstance(outcome, Checked), outcome
        assert outcome.unchecked == ""
        return outcome

    yield judged
    zygote.close()


@pytest.mark.slow
def test_a_batch_norm_that_counts_in_its_buffers_is_compiled(
    cards: Mapping[str, RecipeCard], tmp_path: Path
) -> None:
    seed = gpu_seed(TRAINED, cards, tmp_path)
    assert seed.refusal == ""
    (found,) = whole(seed)
    assert '_buffers["running_mean"]' in seed.source(found.plan)


@pytest.mark.slow
def test_on_an_amd_gpu_the_code_is_that_for_plain_triton(
    cards: Mapping[str, RecipeCard], tmp_path: Path, dry_outcome: Callable[..., Checked]
) -> None:
    pytest.importorskip("triton")
    source = reference(
        "return torch.cat((torch.erf(a), b.flip(1)), 1).sum(0), a[:, [3, 0, 2]]",
        *["torch.randn(64, 300)"] * 2,
    )
    seed = gpu_seed(source, cards, tmp_path, "mi300x")
    assert seed.refusal == ""
    (found,) = whole(seed)
    outcome = dry_outcome(source, seed.source(found.plan), tmp_path, "mi300x")
    assert {kernel.architecture for kernel in outcome.kernels} == {"gfx942"}


@pytest.mark.slow
def test_an_answer_is_laid_out_as_eager_lays_it_out_on_real_memory(
    cards: Mapping[str, RecipeCard], tmp_path: Path, dry_outcome: Callable[..., Checked]
) -> None:
    pytest.importorskip("triton")
    source = reference(
        "return torch.lerp(a, b, c)",
        *("torch.randn(5)", "torch.randn(5, 5, 5).transpose(0, 1)", "torch.randn(5, 5).t()"),
    )
    for name in ("h200", "mi300x"):
        seed = gpu_seed(source, cards, tmp_path, name)
        (found,) = whole(seed)
        dry_outcome(source, seed.source(found.plan), tmp_path, name)


@pytest.mark.slow
def test_how_eager_lays_out_an_answer_is_asked_on_valid_inputs() -> None:
    source = reference(
        "return torch.lerp(a, b, c), F.embedding(d, self.w).transpose(1, 2)",
        *("torch.randn(5)", "torch.randn(5, 5, 5).transpose(0, 1)", "torch.randn(5, 5).t()"),
        "torch.randint(50, (4, 7))",
        init="self.w = nn.Parameter(torch.randn(50, 8))",
    )
    assert capture(source).mislaid == {0}


@pytest.mark.slow
def test_on_a_gpu_recipes_do_the_convolutions_within_the_compilers_code(
    cards: Mapping[str, RecipeCard], tmp_path: Path, dry_outcome: Callable[..., Checked]
) -> None:
    pytest.importorskip("triton")
    seed = gpu_seed(TRAINED, cards, tmp_path)
    (found,) = between(seed)
    assert [one["recipe"] for one in found.plan["segments"].values()] == ["gpu-conv-split-half"]
    text = seed.source(found.plan)
    assert "torch.convolution" not in text
    outcome = dry_outcome(TRAINED, text, tmp_path)
    # The activation that was written in place is fused with the batch norm by the compiler.
    names = " ".join(kernel.name for kernel in outcome.kernels)
    assert "relu" in names
    assert "kernel1" not in names


@pytest.mark.slow
def test_on_a_gpu_a_kernel_that_reads_nothing_is_not_called_from_the_compilers_code(
    cards: Mapping[str, RecipeCard], tmp_path: Path
) -> None:
    source = reference(
        "d = torch.arange(40)[:, None] - torch.arange(40)[None, :]\n"
        "return (a @ b.mT) * torch.where(d >= 0, 0.9 ** d.float(), 0.0), F.softmax(a, 1)",
        *["torch.randn(2, 3, 40, 20)"] * 2,
    )
    seed = gpu_seed(source, cards, tmp_path)
    (part,) = [one for one in seed.shop.cut(()) if one.pattern != "library" and not one.inputs]
    card = seed.shop.recipes(part)[0]
    choice = Choice(recipe=card.name, knobs=seed.shop.knobs(part, card) or {})
    with pytest.raises(Unfit, match="reads nothing"):
        seed.source(seed.plan({part.id: choice}))


def test_a_kernel_that_reads_very_many_tensors_is_not_called_from_the_compilers_code(
    cards: Mapping[str, RecipeCard], target: TargetRecord
) -> None:
    source = reference(
        "return sum(torch.exp(torch.roll(a, i, 0)) for i in range(70)), F.softmax(a @ a, 1)",
        "torch.randn(80, 80)",
    )
    seed = Case(source, cards, target).seed
    (part,) = [one for one in seed.shop.cut(()) if len(one.inputs) > 64]
    card = seed.shop.recipes(part)[0]
    choice = Choice(recipe=card.name, knobs=seed.shop.knobs(part, card) or {})
    with pytest.raises(Unfit, match="reads 70 tensors"):
        seed.source(seed.plan({part.id: choice}))


@pytest.mark.slow
def test_on_a_gpu_attention_in_the_compilers_code_reads_heads_where_they_lie(
    cards: Mapping[str, RecipeCard], tmp_path: Path, dry_outcome: Callable[..., Checked]
) -> None:
    pytest.importorskip("triton")
    source = reference(
        "q, k, v = (x.view(2, 40, 3, 16).transpose(1, 2) for x in self.l(a).chunk(3, -1))\n"
        "y = F.scaled_dot_product_attention(q, k, v)\n"
        "return F.softmax(y.transpose(1, 2).reshape(2, 40, 48), 1)",
        "torch.randn(2, 40, 48)",
        init="self.l = nn.Linear(48, 144)",
    )
    seed = gpu_seed(source, cards, tmp_path)
    (found,) = between(seed)
    assert "attention" in {part["pattern"] for part in found.plan["segments"].values()}
    outcome = dry_outcome(source, seed.source(found.plan), tmp_path)
    # Two kernels for the product, two for the attention, one that lays its answer out, two for the softmax over columns.
    assert len(outcome.kernels) == 7


@pytest.mark.slow
@pytest.mark.parametrize("body", ["F.gelu(self.c(a))", "F.relu(self.c(a)).mean((2, 3))"])
def test_what_the_library_convolves_has_the_strides_that_kernels_count_with(
    body: str,
    cards: Mapping[str, RecipeCard],
    tmp_path: Path,
    dry_outcome: Callable[..., Checked],
) -> None:
    pytest.importorskip("triton")
    init = "self.c = nn.Conv2d(3, 20, 3)"
    source = reference(f"return {body}", "torch.randn(2, 3, 12, 12)", init=init)
    seed = gpu_seed(source, cards, tmp_path)
    text = seed.source(seed.plan({}))
    assert "torch.convolution" in text
    dry_outcome(source, text, tmp_path)


@pytest.mark.slow
def test_an_answer_is_laid_out_as_eager_does(
    cards: Mapping[str, RecipeCard], target: TargetRecord
) -> None:
    """Inductor lays this one out as its input is."""
    source = reference("return torch.stack([a], -1), a + 1", "torch.randn(40, 30).t()")
    case = Case(source, cards, target)
    text = case.seed.source(case.seed.plan({}))
    stacked, plain = load(text).ModelNew()(*case.bench.inputs)
    assert stacked.is_contiguous()
    assert plain.stride() == (1, 30)


@pytest.mark.slow
def test_a_part_of_the_compilers_answer_is_returned_without_gaps(
    cards: Mapping[str, RecipeCard], target: TargetRecord
) -> None:
    source = reference(
        "return torch.exp(a @ b)[:, 1], (a @ F.silu(b))[:, 1]",
        "torch.randn(3, 4, 5, 6)",
        "torch.randn(3, 4, 6, 7)",
    )
    case = Case(source, cards, target)
    (found,) = whole(case.seed)
    text = case.seed.source(found.plan)
    for mine, eager in case.bench.errors(text):
        assert mine <= 8 * eager + 1e-6
    answers = load(text).ModelNew()(*case.bench.inputs)
    assert all(answer.is_contiguous() for answer in answers)
