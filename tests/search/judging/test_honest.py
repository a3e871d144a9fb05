"""Candidates that any careful judge must let pass, whatever order they add in."""

from collections.abc import Callable

import pytest

from search.judging.corpus.cases import Case, complaint, load_cases, reference_source
from search.judging.cpu.judge import CpuJudge


@pytest.mark.parametrize("case", load_cases("cpu", ("honest",)), ids=lambda case: case.name)
def test_an_honest_kernel_passes(make_judge: Callable[..., CpuJudge], case: Case) -> None:
    outcome = make_judge(reference_source("cpu", case.reference)).judge(case.source)
    assert not complaint(case, outcome, seconds=0), outcome
    assert outcome.kind == "passed"
    # Kernels that call the library besides have a smaller share, and calls of some microseconds are seldom met.
    if case.name != "softmax-ring_of_temporaries" and case.reference in {
        "chain",
        "layernorm",
        "matmul",
        "row_sums",
        "softmax",
    }:
        assert outcome.own_share is None or outcome.own_share > 0.5
