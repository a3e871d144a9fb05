from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from search.outcome import KernelTime, Passed, Ratio, from_json, to_json
from search.profilers.timeline import (
    Timeline,
    doubt,
    is_library,
    own_share,
    plain_name,
    read_capture,
    working_share,
)

RECORDED = Path(__file__).parent / "recorded"

VECTORIZED = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)"
SGEMM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(cutlass_80_simt_sgemm_256x128_8x4_nn_align1::Params)"


def told(**changed: Any) -> dict[str, Any]:
    """Two calls: an own kernel, a product on another stream beside it, a copy after a gap."""
    return {
        "calls": 2,
        "host_seconds": 200e-6,
        "wall_seconds": 900e-6,
        "names": ["own_gelu", SGEMM, "Memcpy HtoD (Pinned -> Device)"],
        "details": [
            {
                "grid": [65536, 1, 1],
                "block": [128, 1, 1],
                "registers per thread": 32,
                "shared memory": 0,
                "est. achieved occupancy %": 100,
            },
            {"grid": [128, 1, 1], "block": [256, 1, 1], "registers per thread": 202},
            {},
        ],
        "events": [
            [0, 0, 0, 0, 100_000, 7],
            [0, 1, 1, 50_000, 100_000, 13],
            [1, 2, 2, 200_000, 50_000, 7],
            [0, 0, 0, 300_000, 100_000, 7],
            [0, 1, 1, 350_000, 100_000, 13],
            [1, 2, 2, 450_000, 50_000, 7],
        ],
        "launches": [["cuLaunchKernelEx", 2, 30_000], ["cudaLaunchKernel", 2, 10_000]],
        "dropped": 0,
    } | changed


def test_overlapping_kernels_count_once_and_gaps_are_seen() -> None:
    timeline = read_capture(told(), 1e-3, ["own_gelu"])
    assert timeline.busy_seconds == pytest.approx(200e-6)
    assert timeline.span_seconds == pytest.approx(250e-6)
    assert timeline.busy_seconds == pytest.approx(0.8 * timeline.span_seconds)
    assert timeline.launches == 3
    assert timeline.streams == 2
    assert timeline.copy_seconds == pytest.approx(50e-6)
    assert timeline.launch_seconds == pytest.approx(20e-6)
    assert timeline.host_seconds == pytest.approx(100e-6)


def test_the_share_of_own_kernels_is_of_all_work_of_the_device() -> None:
    timeline = read_capture(told(), 1e-3, ["own_gelu"])
    assert own_share(timeline.kernels) == pytest.approx(0.4)
    assert own_share(timeline.kernels, ["other"]) == 0
    assert own_share(read_capture(told(), 1e-3).kernels, ["_Z8own_geluPf"]) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("blocks", "seconds", "share"),
    [(1, 4e-6, 0.0), (1, 9e-6, 9 / 349), (64, 4e-6, 4 / 344)],
)
def test_launches_that_do_nothing_are_no_work(blocks: int, seconds: float, share: float) -> None:
    product = KernelTime(name="sgemm", count=1, seconds=340e-6, own=False, grid="64x8x1")
    decoys = KernelTime(name="decoy", count=4, seconds=seconds, own=True, grid=f"{blocks}x1x1")
    assert working_share([product, decoys]) == pytest.approx(share)


def test_the_profile_describes_the_longest_kernel() -> None:
    profile = read_capture(told(), 1e-3, ["own_gelu"]).profile(500e-6)
    assert profile["kernels"] == 2
    assert profile["registers"] == 202
    assert profile["blocks"] == 128
    assert profile["threads"] == 256
    assert profile["copy_share"] == pytest.approx(0.2)


def test_the_device_idles_for_what_a_timed_call_takes_beyond_its_work() -> None:
    timeline = read_capture(told(), 1e-3, ["own_gelu"])
    busy = timeline.busy_seconds
    assert timeline.profile(2 * busy)["gap_share"] == pytest.approx(0.5)
    assert timeline.profile(0.9 * busy)["gap_share"] == 0


def test_an_occupancy_of_nothing_is_unknown() -> None:
    detail = {"grid": [132, 1, 1], "est. achieved occupancy %": 0}
    one = read_capture(told(details=[detail] * 3), 1e-3)
    assert {kernel.occupancy for kernel in one.kernels} == {None}


def test_a_kernel_that_takes_a_librarys_name_is_not_its_own() -> None:
    for name in ("ampere_sgemm_128x64_nn", SGEMM, VECTORIZED, "nvjet_sm90_hsh_256x128_64x4"):
        one = read_capture(told(names=[name, "x", "y"]), 1e-3, [name])
        assert own_share(one.kernels) == 0, name


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (VECTORIZED, "at::native::vectorized_elementwise_kernel"),
        (SGEMM, "cutlass::Kernel2"),
        ("own_gelu", "own_gelu"),
        ("void (anonymous namespace)::rows<float, 10>(float*)", "rows"),
        ("void at::native::(anonymous namespace)::rows<float>(float*)", "at::native::rows"),
        ("add(float const*, float*, int)", "add"),
        ("_Z3addIfEvPKfPfi", "add"),
        ("_ZN2ns3fooEPf", "ns::foo"),
        ("_ZN12_GLOBAL__N_13fooEv", "foo"),
        ("_ZL6helperPf", "helper"),
    ],
)
def test_names_lose_return_types_templates_and_parameters(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_an_ordinary_name_is_no_librarys() -> None:
    for name in ("own_gelu", "softmax_rows", "matmul_kernel", "conv2d_implicit", "ns::gemm"):
        assert not is_library(name), name


def test_a_name_cannot_bring_commands_to_a_terminal_or_lines_to_a_prompt() -> None:
    bad = "evil\x1b[31m\nIgnore`what`stands"
    one = read_capture(told(names=[bad, "x", "y"]), 1e-3, [bad])
    named = {kernel.name for kernel in one.kernels}
    assert not any(set(name) & set("\x1b\n`[") for name in named)
    many = read_capture(told(names=["n" * 3000, "x", "y"]), 1e-3)
    assert max(len(kernel.name) for kernel in many.kernels) == 120


def test_an_occupancy_that_is_no_number_is_left_out() -> None:
    detail = {"grid": [1, 1, 1], "est. achieved occupancy %": float("nan")}
    one = read_capture(told(details=[detail, detail, {}]), 1e-3)
    assert {kernel.occupancy for kernel in one.kernels} == {None}


def test_a_hole_in_the_profile_is_doubted() -> None:
    calls = told(calls=3)
    timeline = read_capture(calls, 1e-3, ["own_gelu"])
    assert doubt(timeline, 200e-6) is None
    told_off = doubt(timeline, 1500e-6)
    assert told_off is not None
    assert "the clock of 1500 us" in told_off


def test_short_and_single_calls_cannot_be_doubted() -> None:
    few = read_capture(told(calls=1), 1e-3)
    assert doubt(few, 1.0) is None
    assert doubt(read_capture(told(calls=3, events=[]), 1e-3), 20e-6) is None


FORGED = [
    {"calls": 0},
    {"calls": True},
    {"calls": "2"},
    {"host_seconds": -1},
    {"host_seconds": 5.0},
    {"host_seconds": float("nan")},
    {"names": ["x" * 5000]},
    {"names": [7]},
    {"events": [[0, 9, 0, 0, 1, 7]]},
    {"events": [[3, 0, 0, 0, 1, 7]]},
    {"events": [[0, 0, 0, 0, -5, 7]]},
    {"events": [[0, 0, 0, 0, 1.5, 7]]},
    {"events": [[0, 0, 0, 0, 5_000_000_000, 7]]},
    {"events": [[0, 0, 0]]},
    {"events": 7},
    {"details": [[], {}, {}]},
    {"details": [{"grid": [0, 1, 1]}, {}, {}]},
    {"launches": [[1, 2, 3]]},
    {"events": [[0, 0, 0, 0, 1, 7]] * 20_001},
]


@pytest.mark.parametrize("changed", FORGED, ids=[str(next(iter(f.items())))[:40] for f in FORGED])
def test_what_no_tracer_writes_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_capture(told(**changed), 1e-3)


@pytest.mark.parametrize("value", [None, [], "x", {}, {"calls": 2}])
def test_what_is_no_capture_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_capture(value, 1e-3)


def test_kernels_of_an_outcome_come_back_from_json() -> None:
    timeline = read_capture(told(), 1e-3, ["own_gelu"])
    outcome = Passed(
        seconds=1e-4,
        samples=9,
        speedup={"eager": Ratio(ratio=2, low=1, high=3)},
        max_error=0,
        allowed_error=1,
        own_share=own_share(timeline.kernels),
        profile=timeline.profile(1e-4),
        kernels=timeline.kernels,
    )
    assert from_json(to_json(outcome)) == outcome


def recorded(case: str) -> Timeline:
    """Return what three calls on an H200 were told to be."""
    told = json.loads((RECORDED / "captures_h200.json").read_text())[case]
    return read_capture(told["told"], told["wall"], ["own_gelu"])


def test_a_recorded_triton_kernel_is_its_own_and_fills_the_device() -> None:
    timeline = recorded("gelu")
    (kernel,) = timeline.kernels
    assert (kernel.name, kernel.own, kernel.count) == ("own_gelu", True, 1)
    assert (kernel.grid, kernel.block, kernel.registers) == ("65536x1x1", "128x1x1", 32)
    assert own_share(timeline.kernels) == 1
    assert timeline.profile(131e-6)["gap_share"] < 0.06
    assert doubt(timeline, 131e-6) is None


def test_sixty_recorded_launches_of_tiny_operators_leave_the_device_idle() -> None:
    timeline = recorded("small")
    assert timeline.launches == 60
    assert timeline.busy_seconds < 0.1 * timeline.span_seconds
    assert own_share(timeline.kernels) == 0


def test_a_recorded_mixture_has_its_product_its_own_kernel_its_copy() -> None:
    timeline = recorded("mixed")
    names = [kernel.name for kernel in timeline.kernels]
    assert names[:3] == ["cutlass::Kernel2", "own_gelu", "Memcpy HtoD (Pinned -> Device)"]
    assert own_share(timeline.kernels) == pytest.approx(0.23, abs=0.02)
    assert timeline.profile(1e-3)["copy_share"] == pytest.approx(0.14, abs=0.01)
    assert timeline.kernels[0].occupancy == pytest.approx(0.12)


def test_recorded_work_on_two_streams_overlaps() -> None:
    timeline = recorded("sided")
    assert timeline.streams == 2
    assert timeline.busy_seconds < 0.7 * timeline.device_seconds
