from __future__ import annotations

from dataclasses import asdict

from kb.app.diagnosis import diagnosis_lines
from kb.cli.render.run_report import report_text
from kb.cli.render.tables import kernel_lines
from search.attempt import Attempt, Draft, Idea
from search.outcome import Crashed, KernelTime, Outcome, Passed, Ratio

KERNELS = (
    KernelTime(
        name="cutlass::Kernel2",
        count=1,
        seconds=3e-4,
        own=False,
        grid="128x1x1",
        block="256x1x1",
        registers=202,
        shared=49152,
        occupancy=0.12,
    ),
    KernelTime(name="own_gelu", count=2, seconds=1e-4, own=True),
)
WORK = {"flops": 1e6, "bytes": 5e8, "traffic": 5e8, "families": ["softmax"]}


def passed() -> Passed:
    return Passed(
        seconds=4e-4,
        samples=9,
        speedup={"eager": Ratio(ratio=1.5, low=1.4, high=1.6)},
        max_error=0,
        allowed_error=1,
        own_share=0.25,
        profile={"gap_share": 0.01, "launches": 3.0, "kernels": 2.0},
        kernels=KERNELS,
    )


def attempt(outcome: Outcome) -> Attempt:
    return Attempt(
        number=3,
        parent=None,
        round=0,
        branch=0,
        idea=Idea(title="x", text="", category="memory access"),
        draft=Draft(source=""),
        outcome=outcome,
    )


def test_each_kernel_is_one_line_with_its_share() -> None:
    first, second = kernel_lines([asdict(kernel) for kernel in KERNELS])
    assert first == (
        " 75%  cutlass::Kernel2 (not own): 1 x 300 µs, grid 128x1x1 of 256x1x1, 202 registers, "
        "48 KiB shared, occupancy 12%"
    )
    assert second == " 25%  own_gelu (own): 2 x 50 µs"


def test_many_kernels_end_in_one_line_and_long_names_are_cut() -> None:
    many = [
        asdict(KernelTime(name=f"{'n' * 100}{number}", count=1, seconds=1e-5, own=False))
        for number in range(9)
    ]
    lines = kernel_lines(many)
    assert len(lines) == 7
    assert lines[-1] == " 33%  3 more"
    assert all(len(line) < 90 for line in lines)
    assert kernel_lines([]) == []


def test_a_report_shows_own_work_beside_the_speed_up() -> None:
    best = {
        **{key: value for key, value in asdict(passed()).items() if key != "kind"},
        "node": 3,
        "source": "",
        "confirmed": True,
    }
    report = {
        "run": "r-1", "task": "t", "target": "h200", "language": "triton", "author": "recipes",
        "candidates": 4, "seconds": 60.0, "stop_reason": "done", "outcomes": {"passed": 4},
        "baselines": {"eager": 6e-4}, "best": best,
    }  # fmt: skip
    text = report_text(report, [])
    assert "own kernels         25% of its time" in text
    assert "75%  cutlass::Kernel2 (not own)" in text


def test_a_node_is_diagnosed_from_the_record_of_its_run() -> None:
    about = {"target": "h200", "work": WORK, "settings": {"precision": "strict"}}
    lines = diagnosis_lines(about, attempt(passed()))
    assert lines[0].startswith("Memory-bound by its least work")
    assert any("75% of the time is spent in library operators" in line for line in lines)


def test_what_did_not_stand_or_has_no_target_is_not_diagnosed() -> None:
    about = {"target": "h200", "work": WORK, "settings": {}}
    assert diagnosis_lines(about, attempt(Crashed(reason="x"))) == []
    assert diagnosis_lines({**about, "target": "gone"}, attempt(passed())) == []
    assert diagnosis_lines({"target": "h200", "settings": {}}, attempt(passed())) == []
