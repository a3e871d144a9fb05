"""Random kernels with random faults are caught by the trials; the same kernels without a fault pass."""

from collections.abc import Callable

import pytest
from faulty import OPERATORS, Fault, candidate, faults, reference
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from search.judging.cpu.judge import CpuJudge

SOME = ("softmax", "layernorm", "matmul")


@pytest.fixture(scope="module")
def judges(make_judge: Callable[..., CpuJudge]) -> dict[str, CpuJudge]:
    return {operator: make_judge(reference(operator)) for operator in SOME}


@pytest.mark.slow
@pytest.mark.parametrize("operator", SOME)
def test_without_a_fault_they_pass(judges: dict[str, CpuJudge], operator: str) -> None:
    outcome = judges[operator].judge(candidate(Fault(operator=operator, kind="none")))
    assert outcome.kind == "passed", outcome


@pytest.mark.slow
@settings(
    max_examples=20, derandomize=True, deadline=None, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(fault=faults(SOME, gross=True))
def test_with_a_fault_that_matters_they_do_not(judges: dict[str, CpuJudge], fault: Fault) -> None:
    outcome = judges[fault.operator].judge(candidate(fault))
    assert outcome.kind in {"wrong", "refused"}, (fault, outcome)


@settings(derandomize=True, deadline=None, database=None, max_examples=50)
@given(fault=faults(), operator=st.sampled_from(OPERATORS))
def test_every_kernel_and_reference_that_is_drawn_is_python(fault: Fault, operator: str) -> None:
    compile(candidate(fault), "candidate.py", "exec")
    compile(reference(operator), "reference.py", "exec")
