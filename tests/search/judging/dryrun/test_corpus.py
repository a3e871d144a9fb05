"""Honest kernels of the corpus for a device, written by others: none may be called wrong."""

from __future__ import annotations

import pytest
from dry import make_task

from search.judging.corpus.cases import load_cases, reference_source
from search.judging.dryrun.check import Built, DryCheck
from search.judging.limits import Limits
from search.reference import load_problem
from search.sandbox.faults import Fault

CASES = {case.label: case for case in load_cases("cuda", ("honest",))}
# One of each way to write a kernel; the corpus as a whole takes minutes.
CHOSEN = [
    "honest/chain-temporary_in_place", "honest/column_means-atomics",
    "honest/cross_entropy-one_pass", "honest/layernorm-graph", "honest/layernorm-two_streams",
    "honest/linear-split_k", "honest/row_sums-last_block",
    "honest/softmax-two_kernels_in_place",
]  # fmt: skip


@pytest.fixture(scope="module")
def desks(tmp_path_factory, zygote):
    made: dict[str, DryCheck] = {}

    def desk(reference: str) -> DryCheck:
        if reference not in made:
            folder = tmp_path_factory.mktemp(reference)
            problem = load_problem(make_task(folder, reference_source("cuda", reference)))
            made[reference] = DryCheck(
                problem, seed=1, folder=folder, limits=Limits(memory=2 << 30), zygote=zygote
            )
            made[reference].prepare(lambda _: None)
        return made[reference]

    return desk


@pytest.mark.slow
@pytest.mark.parametrize("label", CHOSEN)
def test_an_honest_kernel_is_right_or_says_why_it_was_not_checked(label, desks, architectures):
    case = CASES[label]
    finding = desks(case.reference).examine(case.source, (architectures["sm_90"],))
    built = finding.built["sm_90"]
    assert isinstance(built, Built), built
    assert not isinstance(finding.answers, Fault), finding.answers.outcome
    if label == "honest/layernorm-graph":
        assert "graph is replayed on a device only" in finding.answers.unchecked
    else:
        assert finding.answers.unchecked == ""
