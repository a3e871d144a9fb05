from dataclasses import replace

import pytest

from search.attempt import Attempt, Draft, Idea
from search.costs.graph import Work
from search.outcome import (
    BuildFailed,
    Crashed,
    Outcome,
    Passed,
    Ratio,
    Refused,
    TimedOut,
    Wrong,
)
from search.prompting.describe import cost, detail, trials_of_branches, trials_of_ideas, verdict
from search.prompting.history import Recalled
from search.won_or_lost import gains

FAST = Passed(
    seconds=0.00123,
    samples=20,
    speedup={
        "eager": Ratio(ratio=2.1, low=2.05, high=2.15),
        "compile": Ratio(ratio=1.4, low=1.3, high=1.5),
    },
    max_error=1e-6,
    allowed_error=8e-6,
    own_share=0.97,
    profile={"roofline": 0.43, "gflops": 51.2},
)


def attempt(number: int, title: str, outcome: Outcome, branch: int = 0) -> Attempt:
    return Attempt(
        number=number,
        parent=None,
        round=0,
        branch=branch,
        idea=Idea(title=title, text=f"Do {title}.", category="memory access"),
        draft=Draft(source=f"# {number}"),
        outcome=outcome,
    )


def test_a_pass_is_told_with_every_figure() -> None:
    assert verdict(FAST) == (
        "It passed: 1.23 ms a call, 2.10x over eager (2.05 to 2.15), "
        "1.40x over torch.compile (1.30 to 1.50)",
        "Largest error 1e-06 of 8e-06 allowed",
        "97% of its time is spent in its own kernels",
        "Profile: 51.2 GFLOP/s by the reference's count",
    )
    assert detail(FAST) == ""


def test_a_pass_that_nobody_saw_is_told_as_such_and_its_share_is_no_figure() -> None:
    told = verdict(replace(FAST, profile={"seen": 0.2, "gflops": 51.2}))
    assert "The machine was too busy to time it: its times say little" in told
    assert told[-1] == "Profile: 51.2 GFLOP/s by the reference's count"


def test_of_a_processor_rates_and_counts_are_told_in_words_and_no_bounds_of_all_its_cores() -> None:
    profile = {"bandwidth": 6e9, "bytes": 1.9e7, "floor_memory": 2.3e-5, "floor_seconds": 1.5e-5,
               "flops": 2.7e7, "gflops": 8.5, "perf_page_faults": 12.0, "perf_tlb_misses": 1234.5,
               "roofline": 0.0047}  # fmt: skip
    assert verdict(replace(FAST, profile=profile))[-1] == (
        "Profile: 6 GB/s and 8.5 GFLOP/s by the reference's count, 12 page faults a call, "
        "1234 tlb misses a call"
    )
    assert not any("Profile" in line for line in verdict(replace(FAST, profile={"roofline": 0.1})))


def test_of_a_device_what_the_diagnosis_leaves_out_is_told_with_units() -> None:
    profile = {"launches": 2.0, "device_seconds": 19.5e-6, "blocks": 132.0, "shared_bytes": 210 * 1024.0,
               "registers": 120.0, "floor_memory": 1e-5, "ncu_waves": 1.0}  # fmt: skip
    assert verdict(replace(FAST, profile=profile))[-1] == (
        "Profile: the device works 19.5 us a call, 2 launches, longest kernel 132 blocks, 120 registers a thread, "
        "210 KiB shared a block, ncu_waves 1"
    )


@pytest.mark.parametrize(
    ("outcome", "lines"),
    [
        (Wrong(reason="3 differ", detail="d"), ("It gave wrong results: 3 differ",)),
        (BuildFailed(reason="no ;", detail="d"), ("It did not build: no ;",)),
        (
            Crashed(reason="died", detail="d", signal="SIGBUS"),
            ("It crashed: died", "Killed by SIGBUS"),
        ),
        (TimedOut(reason="10 s", seconds=10, detail="d"), ("It ran out of time: 10 s",)),
        (
            Refused(reason="same output", trick="constant-output", detail="d"),
            ("It was refused as cheating: same output", "What it did: constant-output"),
        ),
    ],
)
def test_each_failure_is_told_in_its_words(outcome: Outcome, lines: tuple[str, ...]) -> None:
    assert verdict(outcome) == lines
    assert detail(outcome) == "d"


def test_implementations_of_one_idea_are_one_trial_with_its_best() -> None:
    slow = Passed(
        seconds=0.01,
        samples=5,
        speedup={"eager": Ratio(ratio=0.8, low=0.7, high=0.9)},
        max_error=0.0,
        allowed_error=1.0,
    )
    first, second = trials_of_ideas(
        gains(
            [
                attempt(0, "fuse", slow),
                attempt(1, "tile", Wrong(reason="all differ")),
                attempt(2, "fuse", FAST, branch=1),
                attempt(3, "fuse", BuildFailed(reason="first"), branch=2),
                attempt(4, "fuse", BuildFailed(reason="last"), branch=2),
            ]
        )
    )
    assert (first.title, first.gain) == ("fuse", 2.1)
    assert first.results[0].startswith("2 of 4 implementations passed; the best: it passed: 1.23")
    assert first.results[1] == "2 of 4 did not build: last"
    assert (second.title, second.gain) == ("tile", 0.0)
    assert second.results == ("1 of 1 gave wrong results: all differ",)


def test_what_each_setting_of_a_program_came_to_is_told_of_ideas_that_are_near() -> None:
    def setting(number: int, tile: int, outcome: Outcome) -> Attempt:
        draft = Draft(source=f'TILE = {tile}\nKNOBS = {{"TILE": [16, 32, 64]}}\n')
        return replace(attempt(number, "tile", outcome), draft=draft)

    ratio = Ratio(ratio=0.9, low=0.9, high=0.9)
    slower = replace(FAST, seconds=2e-3, speedup={"eager": ratio, "compile": ratio})
    tried = [
        setting(0, 16, slower),
        setting(1, 32, FAST),
        setting(2, 64, Wrong(reason="all differ")),
        attempt(3, "fuse", FAST),
    ]
    near = Recalled(trajectory=frozenset({0}), siblings=frozenset())
    first, other = trials_of_ideas(gains(tried), near)
    assert (
        first.results[-1]
        == "Its settings: TILE 32: 1.23 ms; TILE 16: 2 ms; TILE 64: gave wrong results"
    )
    assert not any("settings" in line for line in other.results)
    far = trials_of_ideas(gains(tried))[0]
    assert not any("settings" in line for line in far.results)


def test_what_a_tried_idea_did_on_the_device_is_told_in_a_line() -> None:
    profile = {"launches": 1.0, "device_seconds": 20e-6, "host_seconds": 2e-4, "registers": 128.0}
    (trial,) = trials_of_ideas(gains([attempt(0, "fuse", replace(FAST, profile=profile))]))
    assert trial.results[1] == "The device works 20 us a call, 1 launch, 128 registers a thread"


def test_each_implementation_is_a_trial_with_the_start_of_its_report() -> None:
    report = "\nk.cpp:3: error: no ;\n  int x\n      ^\nmany more lines"
    (trial,) = trials_of_branches(
        [attempt(7, "fuse", BuildFailed(reason="no ;", detail=report), branch=1)]
    )
    assert trial.title == "Implementation 2 (candidate 7)"
    assert trial.text == "it did not build: no ;"
    assert trial.results == ("k.cpp:3: error: no ;", "int x")


def test_the_cost_of_a_task_is_told_with_its_intermediates_only_where_they_count() -> None:
    work = Work(flops=1e9, bytes=1e7, traffic=5e7, families=("convolution", "pooling"))
    assert cost(work) == (
        "The reference does 1 GFLOP on 10 MB of inputs, parameters and outputs: 100 FLOP a byte",
        "Run operator by operator, its intermediate tensors make it 50 MB",
        "Operators, the most expensive first: convolution, pooling",
    )
    assert len(cost(Work(flops=1e9, bytes=1e7, traffic=1e7, families=()))) == 1


def test_a_task_that_moves_nothing_is_no_division_by_zero() -> None:
    assert "0 FLOP a byte" in cost(Work(flops=0, bytes=0, traffic=0, families=()))[0]


def test_tensors_of_two_bytes_are_told_with_what_their_precision_allows() -> None:
    work = Work(flops=1e9, bytes=1e6, traffic=1e6, families=("matmul",), short=True)
    assert any("summed in float32" in line for line in cost(work))
    assert not any("two bytes" in line for line in cost(replace(work, short=False)))
