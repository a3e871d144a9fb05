"""The proof that ordinary Triton kernels can be dry-run: each for seven architectures, in seconds."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from dry import KERNELS, split

from search.judging.dryrun.architecture import Architecture
from search.judging.dryrun.check import DryCheck, DryFinding
from search.sandbox.faults import Fault
from search.sandbox.zygote import Zygote

NAMES = sorted(path.stem for path in KERNELS.glob("*.py"))
SEVEN = {"sm_80", "sm_89", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950"}
TOOK: dict[str, float] = {}


def processor_seconds(zygote: Zygote) -> float:
    """Return the processor time that the zygote and all that it has forked and reaped have used."""
    fields = Path(f"/proc/{zygote.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def timed(
    desk: DryCheck, answer: str, chosen: tuple[Architecture, ...], zygote: Zygote
) -> tuple[DryFinding, float]:
    """Examine a candidate; return what was found and the seconds that it took.

    On a machine that is busy elsewhere the clock says little: there what it computed counts.
    """
    start, before = time.monotonic(), processor_seconds(zygote)
    finding = desk.examine(answer, chosen)
    return finding, min(time.monotonic() - start, processor_seconds(zygote) - before)


@pytest.fixture(scope="module", autouse=True)
def slowest():
    yield
    told = sorted(TOOK.items(), key=lambda item: -item[1])[:8]
    line = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in told)
    sys.stderr.write(f"\nslowest of {len(TOOK)} dry runs for seven architectures: {line}\n")


def test_there_are_at_least_twenty_five_kernels() -> None:
    assert len(NAMES) >= 25


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_compiles_for_seven_architectures_and_is_right(
    name, make_desk, architectures, zygote
) -> None:
    reference, answer = split(KERNELS / f"{name}.py")
    desk = make_desk(reference)
    chosen = tuple(architectures[wanted] for wanted in architectures if wanted in SEVEN)
    assert {architecture.name for architecture in chosen} == SEVEN
    finding, TOOK[name] = timed(desk, answer, chosen, zygote)
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
