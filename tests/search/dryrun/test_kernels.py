"""The proof that ordinary Triton kernels can be dry-run: each for seven architectures, in seconds."""

from __future__ import annotations

import os
import sys
import time

import pytest
from dry import KERNELS, split

from search.judging.worker import Fault

NAMES = sorted(path.stem for path in KERNELS.glob("*.py"))
SEVEN = {"sm_80", "sm_89", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950"}
SECONDS = 5.0
TOOK: dict[str, float] = {}


def strain() -> float:
    """How much longer things take here than on a machine that does nothing else."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


@pytest.fixture(scope="module", autouse=True)
def slowest():
    yield
    told = sorted(TOOK.items(), key=lambda item: -item[1])[:5]
    line = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in told)
    sys.stderr.write(f"\nslowest of {len(TOOK)} dry runs for seven architectures: {line}\n")


def test_there_are_at_least_twenty_five_kernels() -> None:
    assert len(NAMES) >= 25


@pytest.mark.parametrize("name", NAMES)
def test_it_compiles_for_seven_architectures_and_is_right(name, make_desk, architectures) -> None:
    reference, answer = split(KERNELS / f"{name}.py")
    desk = make_desk(reference)
    chosen = tuple(architectures[wanted] for wanted in architectures if wanted in SEVEN)
    assert {architecture.name for architecture in chosen} == SEVEN
    load = strain()
    start = time.monotonic()
    finding = desk.examine(answer, chosen)
    TOOK[name] = time.monotonic() - start
    for wanted, built in finding.built.items():
        assert not isinstance(built, Fault), (wanted, built.outcome)
        for kernel in built.kernels:
            assert kernel.architecture == wanted
            assert kernel.registers > 0
            assert 0 < kernel.occupancy <= 1
            assert kernel.spills == 0
    assert not isinstance(finding.answers, Fault), finding.answers.outcome
    assert finding.answers.unchecked == ""
    assert finding.answers.max_error is not None
    assert finding.answers.max_error <= finding.answers.allowed_error
    assert TOOK[name] < SECONDS * max(load, strain())
