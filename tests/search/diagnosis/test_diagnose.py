from __future__ import annotations

from dataclasses import replace

import pytest

from kb.records.schema import SYMPTOMS, TargetRecord
from search.attempt import Attempt, Draft, Idea
from search.costs.graph import Work
from search.diagnosis.diagnose import DiagnosisGround, diagnose
from search.finding import INFERRED, OPERATORS, SEEN, TOLD, Finding, Look
from search.outcome import Passed, Ratio

CPU = TargetRecord.model_validate(
    {
        "kind": "target",
        "title": "A processor",
        "name": "test",
        "vendor": "amd",
        "architecture": "x86-64-v4",
        "device": "cpu",
        "languages": ["cpp"],
        "units": 10,
        "clock": 3e9,
        "simd_width": 512,
        "peak": {"float32": 1e12},
        "bandwidth": 400e9,
    }
)
CHAIN = Work(
    flops=20e6, bytes=16e6, traffic=100e6, families=("elementwise",), functions=("sigmoid", "tanh")
)
CONVOLUTION = Work(flops=3e9, bytes=10e6, traffic=12e6, families=("convolution",))


def attempt(
    seconds: float, own_share: float = 1.0, profile: dict[str, float] | None = None
) -> Attempt:
    outcome = Passed(
        seconds=seconds,
        samples=9,
        speedup={"eager": Ratio(ratio=1, low=1, high=1)},
        max_error=0,
        allowed_error=0,
        own_share=own_share,
        profile=profile or {},
    )
    idea = Idea(title="x", text="", category="memory access")
    return Attempt(
        number=0, parent=None, round=0, branch=0, idea=idea, draft=Draft(source=""), outcome=outcome
    )


def ground(work: Work, operators: int, baselines: dict[str, float]) -> DiagnosisGround:
    return DiagnosisGround(
        work=work, operators=operators, target=CPU, bandwidth=20e9, baselines=baselines
    )


def test_an_eager_chain_moves_intermediates_through_memory():
    found = diagnose(ground(CHAIN, 6, {"eager": 6e-3}), None)
    assert found.symptoms[:2] == ("intermediate-traffic", "many-small-operators")
    assert "memory-bound" in found.symptoms
    assert "100.0 MB where 16.0 MB would do" in found.lines[0]


@pytest.mark.parametrize("target", [CPU, CPU.model_copy(update={"device": "gpu"})])
def test_before_the_first_round_it_is_told_how_far_the_compiler_comes(target):
    both = replace(ground(CHAIN, 6, {"eager": 6e-3, "compile": 2e-3}), target=target)
    told = "torch.compile takes 2 ms where eager takes 6 ms."
    assert told in diagnose(both, None).lines
    assert told in diagnose(both, None).notes
    assert told not in diagnose(both, attempt(1e-3)).lines
    alone = replace(both, baselines={"eager": 6e-3})
    assert not diagnose(alone, None).notes


def test_a_convolution_far_from_the_peak_of_one_core_is_compute_bound():
    found = diagnose(ground(CONVOLUTION, 1, {"eager": 90e-3}), attempt(90e-3))
    assert found.symptoms == ("compute-bound", "not-vectorised", "poor-cache-reuse")
    assert any("33.3 of 100 GFLOP/s" in line for line in found.lines)


def test_a_kernel_near_its_floor_has_nothing_but_its_bound():
    found = diagnose(ground(CONVOLUTION, 1, {"eager": 90e-3}), attempt(33e-3))
    assert found.symptoms == ("compute-bound",)


def test_a_kernel_that_spares_work_is_not_said_to_exceed_the_device():
    found = diagnose(ground(CONVOLUTION, 1, {"eager": 90e-3}), attempt(20e-3))
    assert found.symptoms[0] == "compute-bound"
    assert "needs 30 ms, a call takes 20 ms. Part of it is spared" in found.lines[0]


def test_time_in_the_library_is_named():
    found = diagnose(ground(CONVOLUTION, 1, {"eager": 90e-3}), attempt(33e-3, own_share=0.1))
    assert "redundant-work" in found.symptoms
    assert any("90% of the time is spent in library" in line for line in found.lines)


@pytest.mark.parametrize("family", ["normalization", "elementwise"])
def test_only_a_task_with_an_exponential_is_told_of_one(family):
    plain = replace(CHAIN, families=(family,), functions=())
    assert "slow-transcendentals" not in diagnose(ground(plain, 2, {}), attempt(1.0)).symptoms
    slow = replace(plain, functions=("sigmoid", "tanh"))
    found = diagnose(ground(slow, 2, {}), attempt(1.0))
    assert "slow-transcendentals" in found.symptoms
    assert any("sigmoid, tanh" in line for line in found.lines)


@pytest.mark.parametrize("work", [CHAIN, CONVOLUTION])
def test_every_symptom_is_of_the_vocabulary(work):
    for one in (None, attempt(1e-3), attempt(1.0)):
        assert set(diagnose(ground(work, 5, {"eager": 1e-2}), one).symptoms) <= set(SYMPTOMS)


def test_page_faults_that_were_counted_are_named_before_guesses():
    told = {"perf_page_faults": 1953.0}
    found = diagnose(ground(CHAIN, 1, {"eager": 6e-3}), attempt(4e-3, profile=told))
    assert "page-faults" in found.symptoms
    assert any("1953 page faults a call" in line and "counted" in line for line in found.lines)
    few = diagnose(ground(CHAIN, 1, {"eager": 6e-3}), attempt(1.0, profile=told))
    assert not any("page faults a call" in line for line in few.lines)


def test_traffic_that_was_counted_is_compared_with_the_least():
    told = {"perf_cache_misses": 1e6, "perf_tlb_misses": 1e5}
    found = diagnose(ground(CHAIN, 1, {"eager": 6e-3}), attempt(4e-3, profile=told))
    assert {"several-passes", "tlb-misses"} <= set(found.symptoms)
    assert any("64.0 MB come from memory where 16.0 MB would do" in line for line in found.lines)


def test_a_closer_look_that_a_candidate_makes_raise_is_left_out_and_said():
    def look(_):
        raise RecursionError

    place = ground(CONVOLUTION, 1, {"eager": 90e-3})
    found = diagnose(replace(place, look=look), attempt(90e-3))
    assert any("RecursionError" in line for line in found.lines)


def test_what_the_compiler_told_replaces_a_guess():
    told = Finding(symptom="not-vectorised", text="Line 3 is scalar.", gain=0.3, evidence=TOLD)
    place = ground(CONVOLUTION, 1, {"eager": 90e-3})
    found = diagnose(replace(place, look=lambda _: Look(findings=(told,))), attempt(90e-3))
    assert "Line 3 is scalar. (told by the compiler)" in found.lines
    assert not any("vector width, unrolling" in line for line in found.lines)


def test_each_point_carries_its_evidence_and_guesses_wait_beside_evidence():
    eager = diagnose(ground(CHAIN, 6, {"eager": 6e-3}), None)
    evidence = {point.symptom: (point.evidence, point.confidence) for point in eager.points}
    assert eager.points[0].symptom == "memory-bound"
    assert evidence == {
        "memory-bound": (SEEN, "medium"),
        "intermediate-traffic": (OPERATORS, "high"),
        "many-small-operators": (OPERATORS, "high"),
        "slow-transcendentals": (INFERRED, "low"),
        "page-faults": (INFERRED, "low"),
    }
    assert [point.symptom for point in eager.points if point.later] == [
        "slow-transcendentals",
        "page-faults",
    ]
    far = diagnose(ground(CONVOLUTION, 1, {"eager": 90e-3}), attempt(90e-3))
    assert not any(point.later for point in far.points)  # nothing else is known
