from __future__ import annotations

from dataclasses import replace

from policy_contract import attempt, numbers

from search.policies.elites import Elites, cell_of

KERNEL = 'from kb.native import load_cpp\nop = load_cpp("kernel")\n'


def profiled(number, ratio, **profile):
    made = attempt(number, ratio)
    return replace(made, outcome=replace(made.outcome, profile=profile))


def test_a_slow_program_of_its_own_kind_is_a_parent_beside_the_best():
    attempts = [attempt(0, 3.0), attempt(1, 2.9), attempt(2, 1.0, KERNEL)]
    assert numbers(Elites(), attempts) == [0, 2]


def test_kinds_differ_by_bottleneck_language_and_memory_traffic():
    assert cell_of(attempt(0, 1.0, KERNEL))[1] == "cpp"
    assert cell_of(attempt(0, 1.0))[1] == "framework"
    assert cell_of(attempt(0, 1.0, category="parallelism"))[0] == "parallelism"
    assert cell_of(profiled(0, 1.0, gap_share=0.5))[0] == "launches"
    assert cell_of(profiled(0, 1.0, spill_bytes=8.0))[0] == "registers"
    assert cell_of(profiled(0, 1.0, occupancy=0.1))[0] == "occupancy"
    assert cell_of(profiled(0, 1.0, ncu_dram_bytes=4e6, bytes=1e6))[2] == 2
    assert cell_of(profiled(0, 1.0, peak_bytes=1e6, reference_peak_bytes=2e6))[2] == -1
    assert cell_of(profiled(0, 1.0, launches=8.0))[2] == 3
