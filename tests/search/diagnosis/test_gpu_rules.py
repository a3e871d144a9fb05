from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import SYMPTOMS, TargetRecord
from search.attempt import Attempt, Diagnosis, Draft, Idea
from search.costs.graph import Work
from search.diagnosis.diagnose import DiagnosisGround, diagnose
from search.diagnosis.facts import ProgramFacts
from search.diagnosis.gpu_rules import RULES, findings, least_times
from search.finding import SEEN, Finding, Look
from search.outcome import Checked, Kernel, KernelTime, Passed, Ratio
from search.profilers.ncu import Counted, parse_csv

RECORDED = Path(__file__).parents[1] / "profilers" / "recorded" / "ncu_h200.csv"
MANY = 64 << 20  # elements of the recorded programs' buffers


def h200() -> TargetRecord:
    for document in load_library(shipped_docs() / "targets"):
        if isinstance(document.record, TargetRecord) and document.record.name == "h200":
            return document.record
    raise AssertionError


H200 = h200()


def work(flops: float, moved: float, *families: str) -> Work:
    return Work(flops=flops, bytes=moved, traffic=moved, families=families or ("elementwise",))


def attempt(seconds: float, profile: dict[str, float], **changed: object) -> Attempt:
    fields = {"own_share": 1.0, "profile": profile, **changed}
    outcome = Passed(
        seconds=seconds,
        samples=9,
        speedup={"eager": Ratio(ratio=1, low=1, high=1)},
        max_error=0,
        allowed_error=1,
        **fields,  # type: ignore[arg-type]
    )
    return of(outcome)


def of(outcome: object) -> Attempt:
    return Attempt(
        number=0,
        parent=None,
        round=0,
        branch=0,
        idea=Idea(title="x", text="", category="memory access"),
        draft=Draft(source=""),
        outcome=outcome,  # type: ignore[arg-type]
    )


def ground(task: Work, **changed: object) -> DiagnosisGround:
    fields = {"baselines": {"eager": 1e-3}, "operators": 1, **changed}
    return DiagnosisGround(work=task, target=H200, bandwidth=H200.bandwidth, **fields)  # type: ignore[arg-type]


def counted(kernel: str, task: Work, precision: str = "strict") -> Diagnosis:
    """Diagnose a recorded kernel as if it were a whole program."""
    every = parse_csv(RECORDED.read_text()).launches
    (launch,) = (launch for launch in every if launch.name.startswith(kernel))
    profile = Counted(launches=(launch,)).profile()
    return diagnose(ground(task, precision=precision), attempt(launch.values["seconds"], profile))


ELEMENTWISE = work(MANY, 8 * MANY)
SMALL = work(MANY / 16, 8 * MANY / 16)
CASES = [
    ("copy_wide", ELEMENTWISE, "memory-bound"),
    ("copy_strided", ELEMENTWISE, "uncoalesced-access"),
    ("transpose_conflicts", ELEMENTWISE, "bank-conflicts"),
    ("spills", work(512 * MANY / 16, 8 * MANY / 16), "register-spills"),
    ("low_shared", SMALL, "low-occupancy"),
    ("tail", work(2 * 200_000 * 268 * 1024, 4 * 268 * 1024), "tail-effect"),
    ("divergent", work(500 * MANY / 16, 8 * MANY / 16), "branch-divergence"),
    ("chase", work(640_000, 1 << 26, "gather-scatter"), "latency-bound"),
    ("rereads", work(64 * MANY / 16, 8 * MANY / 16, "reduction"), "several-passes"),
    ("barriers", work(40 * MANY / 64, 8 * MANY / 64, "reduction"), "synchronisation"),
    ("atomics", work(MANY / 16, 4 * MANY / 16, "reduction"), "atomic-contention"),
    ("naive_matmul", work(2 * 1024**3, 12 * 1024**2, "matmul"), "tensor-cores-idle"),
    ("sm80_xmma", work(2 * 4096**3, 12 * 4096**2, "matmul"), "tensor-cores-idle"),
    ("at::cunn_SoftMaxForward", work(5 * MANY, 8 * MANY, "softmax"), "several-passes"),
]


@pytest.mark.parametrize(("kernel", "task", "symptom"), CASES, ids=[case[0] for case in CASES])
def test_counters_of_a_known_fault_name_it(kernel: str, task: Work, symptom: str) -> None:
    found = counted(kernel, task)
    assert symptom in found.symptoms, found.lines


@pytest.mark.parametrize("kernel", ["copy_wide", "own_gelu"])
def test_a_kernel_at_the_memorys_ceiling_has_no_fault(kernel: str) -> None:
    assert counted(kernel, ELEMENTWISE).symptoms == ("memory-bound",)


def test_a_padded_transpose_has_no_conflicts_and_a_library_product_no_idle_tensor_cores() -> None:
    assert "bank-conflicts" not in counted("transpose_padded", ELEMENTWISE).symptoms
    product = counted("nvjet", work(2 * 4096**3, 6 * 4096**2, "matmul"), "half")
    assert product.symptoms == ("compute-bound",)


def test_the_first_line_says_where_the_program_stands() -> None:
    for kernel, task, _ in CASES:
        assert " by its least work" in counted(kernel, task).lines[0]


def test_what_limits_occupancy_is_said() -> None:
    low = counted("low_shared", SMALL)
    assert any("limited by 200 KiB of shared memory a block" in line for line in low.lines)


def test_a_program_of_many_launches_is_launch_bound() -> None:
    profile = {"launches": 60.0, "kernels": 3.0, "gap_share": 0.95, "host_seconds": 2.3e-3}
    found = diagnose(ground(work(1e3, 2e3)), attempt(1.4e-3, profile))
    assert found.symptoms[0] == "launch-bound"
    assert "memory-bound" not in found.symptoms, "the device waits for the host, not for memory"
    assert any("idles 95% of a call with 60 launches" in line for line in found.lines)


def test_one_launch_cannot_be_fewer() -> None:
    profile = {"launches": 1.0, "kernels": 1.0, "gap_share": 0.5}
    assert "launch-bound" not in diagnose(ground(work(1e3, 2e3)), attempt(1e-5, profile)).symptoms


def test_where_the_tracer_tells_no_occupancy_it_follows_from_the_launch() -> None:
    profile = {"threads": 512.0, "blocks": 132.0, "registers": 120.0, "shared_bytes": 150e3}
    found = diagnose(ground(work(2e12, 1e9)), attempt(60e-3, profile))
    assert any("Only 25% of the warps" in line for line in found.lines)


def test_without_counters_registers_are_blamed_from_the_launch() -> None:
    profile = {"occupancy": 0.12, "threads": 256.0, "blocks": 10_000.0, "registers": 202.0}
    found = diagnose(ground(work(2e12, 1e9)), attempt(60e-3, profile))
    assert "register-pressure" in found.symptoms
    assert any("limited by 202 registers a thread" in line for line in found.lines)


def test_few_blocks_leave_the_device_idle() -> None:
    profile = {"occupancy": 0.03, "threads": 1024.0, "blocks": 16.0, "registers": 32.0}
    found = diagnose(ground(work(1e9, 268e6, "normalization")), attempt(1e-3, profile))
    assert "tail-effect" in found.symptoms
    assert any("16 blocks leave 88% of the 132 SMs without work" in line for line in found.lines)


def test_spills_of_the_compiler_count_where_no_counter_does() -> None:
    found = diagnose(ground(ELEMENTWISE), attempt(3e-4, {"spill_bytes": 128.0}))
    assert "register-spills" in found.symptoms


def test_time_in_the_library_names_its_longest_kernel() -> None:
    kernels = (
        KernelTime(name="cutlass::Kernel2", count=1, seconds=3e-4, own=False),
        KernelTime(name="own_gelu", count=1, seconds=1e-4, own=True),
    )
    found = diagnose(ground(ELEMENTWISE), attempt(4e-4, {}, own_share=0.25, kernels=kernels))
    assert "redundant-work" in found.symptoms
    assert any("75% of the time" in x and "cutlass::Kernel2" in x for x in found.lines)


def test_a_strict_product_above_ordinary_arithmetic_is_compared_with_split_halves() -> None:
    product = work(2 * 4096**3, 12 * 4096**2, "matmul")
    slow = diagnose(ground(product), attempt(2.7e-3, {}))
    fast = diagnose(ground(product), attempt(1.0e-3, {}))
    assert "of 67 TFLOP/s float32)" in slow.lines[0]
    assert "of 330 TFLOP/s float32 as three half-precision products)" in fast.lines[0]
    assert "tensor-cores-idle" in slow.symptoms
    assert "tensor-cores-idle" not in fast.symptoms


def test_precision_decides_the_peak() -> None:
    product = work(2 * 4096**3, 12 * 4096**2, "matmul")
    assert "TFLOP/s tf32" in diagnose(ground(product, precision="tf32"), attempt(1e-3, {})).lines[0]
    assert (
        "TFLOP/s float16" in diagnose(ground(product, precision="half"), attempt(1e-3, {})).lines[0]
    )


def test_the_reference_is_told_by_its_operators() -> None:
    chain = Work(flops=1e6, bytes=1e6, traffic=9e6, families=("elementwise",))
    found = diagnose(ground(chain, operators=6, baselines={"eager": 30e-6}), None)
    assert {"intermediate-traffic", "many-small-operators", "launch-bound"} <= set(found.symptoms)


def test_what_gains_little_is_left_for_later() -> None:
    profile = {"ncu_dram_share": 0.9, "ncu_bank_conflict_share": 0.12, "ncu_l1_share": 0.2}
    found = diagnose(ground(ELEMENTWISE), attempt(130e-6, profile))
    assert found.symptoms == ("memory-bound",)
    assert found.lines[-1] == "Leave for later, each is worth little now: bank-conflicts."


def test_a_program_that_was_not_run_is_told_by_its_compilers_figures() -> None:
    kernel = Kernel(
        name="rows",
        architecture="sm_90",
        registers=255,
        shared=0,
        spills=96,
        stack=96,
        warps=8,
        occupancy=0.12,
        limited_by=("registers",),
    )
    outcome = Checked(kernels=(kernel,), max_error=None, allowed_error=None)
    found = diagnose(ground(ELEMENTWISE), of(outcome))
    assert found.symptoms == ("register-spills", "register-pressure")
    assert "rows for sm_90 spills 96 bytes a thread." in found.lines[0]


def test_a_closer_look_adds_its_features_findings_and_notes() -> None:
    seen: list[Attempt] = []

    def look(one: Attempt) -> Look:
        seen.append(one)
        finding = Finding(symptom="tlb-misses", text="Pages.", gain=0.9, evidence=SEEN)
        return Look(
            features={"ncu_active_lanes": 8.0}, findings=(finding,), notes=("No counters: x.",)
        )

    one = attempt(3e-4, {})
    found = diagnose(ground(ELEMENTWISE, look=look), one)
    assert {"tlb-misses", "branch-divergence"} <= set(found.symptoms)
    assert found.lines[-1] == "No counters: x."
    assert seen == [one]
    diagnose(ground(ELEMENTWISE, look=look), None)
    assert len(seen) == 1


def test_a_rule_without_its_features_says_nothing() -> None:
    program = ProgramFacts(
        work=ELEMENTWISE,
        target=H200,
        rate="float32",
        peak=67e12,
        bandwidth=4.8e12,
        seconds=120e-6,
        profile={},
    )
    assert [finding.symptom for finding in findings(program)] == ["memory-bound"]


def test_rules_name_symptoms_of_the_vocabulary_and_gains_are_fractions() -> None:
    for launch in parse_csv(RECORDED.read_text()).launches:
        program = ProgramFacts(
            work=SMALL,
            target=H200,
            rate="float32",
            peak=67e12,
            bandwidth=4.8e12,
            seconds=launch.values["seconds"],
            profile=Counted(launches=(launch,)).profile(),
        )
        for rule in RULES:
            for finding in rule(program):
                assert finding.symptom in SYMPTOMS
                assert 0 <= finding.gain <= 1, finding
                assert finding.text.endswith(".")


def test_a_kernel_that_spares_work_is_not_said_to_exceed_the_device() -> None:
    masked = work(35.7e9, 38e6, "matmul", "softmax")
    ground = DiagnosisGround(work=masked, operators=9, target=H200, bandwidth=4.3e12, baselines={})
    first = diagnose(ground, attempt(57e-6, {"launches": 1.0, "gap_share": 0.02})).lines[0]
    assert first.startswith(
        "Faster than the reference's whole arithmetic allows: that needs 108 us"
    )
    assert "%" not in first


def test_what_the_compiler_warns_of_is_a_finding_before_a_guess() -> None:
    loss = "wgmma.mma_async instructions are serialized due to insufficient register resources (ptxas C7512)"
    product = work(1e11, 1e8, "matmul")
    ground = DiagnosisGround(work=product, operators=1, target=H200, bandwidth=4.3e12, baselines={})
    found = diagnose(ground, attempt(4e-3, {"launches": 1.0}, losses=(loss,)))
    told = next(point for point in found.points if point.symptom == "tensor-cores-idle")
    assert told.text == f"The compiler warns: {loss}."
    assert (told.evidence, told.confidence) == ("told by the compiler", "high")
    dry = Kernel(
        name="k", architecture="sm_90", registers=128, shared=0, spills=0, stack=0, warps=8, occupancy=0.5,
        losses=(loss,),
    )  # fmt: skip
    checked = of(Checked(kernels=(dry,), max_error=0.0, allowed_error=1.0))
    assert "serialized" in " ".join(diagnose(ground, checked).lines)


def test_a_gpu_that_is_not_here_takes_at_least_what_its_peaks_allow() -> None:
    moved = Work(flops=2e9, bytes=1e6, traffic=9e6, families=("matmul",))
    peaks = {"float32": 1e12, "float16": 9e12, "tf32": 4e12}
    strict = least_times(moved, peaks, 1e9, "float32")
    assert strict.symptom == "compute-bound"
    assert "2 ms at the peak of float32, 667 us where products are three of halves" in strict.text
    assert "moved takes 1 ms, what eager moves 9 ms" in strict.text
    shorter = least_times(moved, peaks, 1e9, "tf32")
    assert (shorter.symptom, "halves" in shorter.text) == ("memory-bound", False)


def test_products_of_two_bytes_are_measured_by_their_own_peak() -> None:
    moved = Work(
        flops=2e9, bytes=1e6, traffic=9e6, families=("matmul",), short=True, short_products=True
    )
    peaks = {"float32": 1e12, "float16": 9e12, "bfloat16": 9e12, "tf32": 4e12}
    told = least_times(moved, peaks, 1e9, "float32")
    assert (told.symptom, "halves" in told.text) == ("memory-bound", False)
    assert "222 us at the peak of bfloat16" in told.text
    table = replace(moved, short_products=False)  # of which only a table has two bytes
    assert "2 ms at the peak of float32" in least_times(table, peaks, 1e9, "float32").text
