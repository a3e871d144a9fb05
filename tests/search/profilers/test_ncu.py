from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from search.profilers.ncu import (
    Counted,
    ProfiledCandidate,
    Unavailable,
    command,
    find_ncu,
    measure,
    parse_csv,
)
from search.profilers.ncu_cache import look

RECORDED = Path(__file__).parent / "recorded"
GPU = torch.cuda.is_available()
TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def own_double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([scale]))

    def forward(self, x, more):
        y = torch.empty_like(x)
        own_double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), B=1024)
        return y * self.scale + more
"""


def program(source: str) -> ProfiledCandidate:
    return ProfiledCandidate(
        source=source,
        init={"tuple": [0.5]},
        inputs=(torch.randn(1 << 24), 3.0),
        state={"scale": torch.tensor([2.0])},
        prebuilt={},
    )


@pytest.mark.skipif(find_ncu() is not None, reason="Nsight Compute is here")
def test_without_the_profiler_the_reason_says_what_would_do(tmp_path: Path) -> None:
    found = measure(program(TRITON), tmp_path)
    assert isinstance(found, Unavailable)
    assert "put ncu on PATH" in found.reason
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
@pytest.mark.skipif(not GPU or find_ncu() is None, reason="needs an NVIDIA device and ncu")
def test_the_kernels_of_one_call_are_counted(tmp_path: Path) -> None:
    found = measure(program(TRITON), tmp_path)
    assert isinstance(found, Counted), found
    names = [launch.name for launch in found.launches]
    assert names[0] == "own_double"
    assert len(names) == 3  # its own, the product with a parameter, the sum
    assert found.profile()["ncu_dram_bytes"] > 2 * (1 << 26)
    own = Counted(launches=found.launches[:1]).profile()  # how the library loads is its own affair
    assert own["ncu_load_efficiency"] == pytest.approx(1.0, abs=0.02)
    assert 0.4 < own["ncu_dram_share"] < 1


@pytest.mark.gpu
@pytest.mark.skipif(not GPU or find_ncu() is None, reason="needs an NVIDIA device and ncu")
def test_counters_are_kept_and_read_again(tmp_path: Path) -> None:
    first = look(program(TRITON), tmp_path)
    assert first.features.get("ncu_dram_share", 0) > 0.4, first.notes
    (kept,) = tmp_path.iterdir()
    written = kept.stat().st_mtime_ns
    assert look(program(TRITON), tmp_path) == first
    assert list(tmp_path.iterdir()) == [kept]
    assert kept.stat().st_mtime_ns == written


@pytest.mark.skipif(find_ncu() is not None, reason="Nsight Compute is here")
def test_a_look_without_the_profiler_is_a_note(tmp_path: Path) -> None:
    found = look(program(TRITON), tmp_path)
    assert found.features == {}
    assert found.notes[0].startswith("No hardware counters: no Nsight Compute here")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
@pytest.mark.skipif(not GPU or find_ncu() is None, reason="needs an NVIDIA device and ncu")
@pytest.mark.parametrize(
    "place", ["/proc/self/oom_score_adj", "/proc/1/comm", "/proc/sys/kernel/core_pattern"]
)
def test_a_program_under_the_profiler_writes_nothing_of_the_systems(
    tmp_path: Path, place: str
) -> None:
    source = f"import os\nprint('began')\nopen({place!r}, 'a').write('0')\n" + TRITON
    found = measure(program(source), tmp_path)
    if place.startswith("/proc/self"):
        assert isinstance(found, Counted), found
    else:
        assert isinstance(found, Unavailable)
        assert "PermissionError" in found.reason


@pytest.mark.gpu
@pytest.mark.skipif(not GPU or find_ncu() is None, reason="needs an NVIDIA device and ncu")
def test_a_program_that_fails_says_so(tmp_path: Path) -> None:
    found = measure(
        program("class ModelNew:\n    def __init__(self, s): raise KeyError('x')"), tmp_path
    )
    assert isinstance(found, Unavailable)
    assert "failed under the profiler" in found.reason


@pytest.mark.gpu
@pytest.mark.skipif(not GPU or find_ncu() is None, reason="needs an NVIDIA device and ncu")
def test_a_program_under_the_profiler_reads_no_foreign_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("x")
    folder = tmp_path / "inner"
    folder.mkdir()
    found = measure(program(f"open({str(secret)!r})\n" + TRITON), folder)
    assert isinstance(found, Unavailable)
    assert "PermissionError" in found.reason


def recorded() -> dict[str, Counted]:
    """Return each recorded kernel as if it were a call of its own."""
    counted = parse_csv((RECORDED / "ncu_h200.csv").read_text())
    return {launch.name: Counted(launches=(launch,)) for launch in counted.launches}


def test_recorded_counters_are_read() -> None:
    told = recorded()
    assert len(told) == 19
    copy = told["copy_wide"].profile()
    assert copy["ncu_dram_bytes"] == 268_455_424 + 244_673_280
    assert copy["ncu_dram_share"] == pytest.approx(0.863)
    assert copy["ncu_occupancy"] == pytest.approx(0.7788)
    assert copy["ncu_load_efficiency"] == 1
    assert "ncu_bank_conflict_share" not in copy
    (launch,) = told["copy_wide"].launches
    assert (launch.grid, launch.block) == ("65536x1x1", "256x1x1")
    assert launch.values["seconds"] == pytest.approx(123.584e-6)


def test_counters_tell_good_kernels_from_bad_ones() -> None:
    told = {name: counted.profile() for name, counted in recorded().items()}
    assert told["copy_strided"]["ncu_load_efficiency"] == pytest.approx(0.125)
    assert told["transpose_conflicts"]["ncu_bank_conflict_share"] > 0.9
    assert told["transpose_padded"]["ncu_bank_conflict_share"] < 0.1
    assert told["spills"]["ncu_spill_bytes"] == (216_006_656 + 164_626_432) * 32
    assert told["divergent"]["ncu_active_lanes"] == pytest.approx(16.07)
    assert told["atomics"]["ncu_atomic_share"] > 0.4
    assert told["nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT"]["ncu_tensor_share"] > 0.9
    assert told["tail"]["ncu_waves"] == pytest.approx(1.02)


def test_shares_of_a_call_are_weighted_by_time() -> None:
    told = recorded()
    one, other = told["copy_wide"], told["tiny"]
    both = Counted(launches=(*other.launches, *one.launches)).profile()
    assert both["ncu_dram_share"] == pytest.approx(0.863, rel=0.03)
    assert both["ncu_waves"] == one.profile()["ncu_waves"]


@pytest.mark.parametrize("text", ["", "==PROF== Connected\n", '"ID","Value"\n"1","2"\n'])
def test_what_has_no_counters_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no table"):
        parse_csv(text)


def test_a_counter_that_is_not_there_is_left_out() -> None:
    metric = "gpu__time_duration.sum"
    text = f'"Kernel Name","Grid Size","{metric}","lts__t_bytes.sum"\n"","","ns","byte"\n"k(int)","(2, 1, 1)","n/a","1,024"\n'
    (launch,) = parse_csv(text).launches
    assert launch.name == "k"
    assert launch.values == {"l2_bytes": 1024}


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what puts a script in the profiler's place, and gives an empty folder to count in.

    What surrounds the profiler is real then: its command line, the walls, the clock, the killing.
    """

    def put(script: str) -> Path:
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "ncu").write_text(f"#!/bin/sh\n{script}\n")
        (tools / "ncu").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
        folder = tmp_path / "folder"
        folder.mkdir()
        return folder

    return put


MISHAPS = {
    "permission": (
        'echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"; exit 1',
        "NVreg_RestrictProfilingToAdminUsers=0",
    ),
    "no counters": (
        'echo "==ERROR== Failed to initialize the profiler: LibraryNotLoaded"; exit 1',
        "has no counters for a profiler",
    ),
    "the program": ("echo \"KeyError: 'x'\"; exit 1", "failed under the profiler: KeyError"),
    "another error": (
        'echo "==ERROR== Unknown metric"; exit 1',
        "Nsight Compute says: Unknown metric",
    ),
    "nothing": ("exit 3", "ended with status 3: it said nothing"),
    "a secret": (
        "cat /etc/shadow && echo read; exit 1",
        "Permission denied",
    ),
}


@pytest.mark.parametrize("what", MISHAPS)
def test_why_there_are_no_counters_is_said_in_one_line(
    what: str, stand_in: Callable[[str], Path]
) -> None:
    script, words = MISHAPS[what]
    found = measure(program(TRITON), stand_in(script), seconds=30)
    assert isinstance(found, Unavailable)
    assert words in found.reason
    assert "\n" not in found.reason


@pytest.mark.slow
def test_a_profiler_that_hangs_is_killed_with_all_that_it_started(
    stand_in: Callable[[str], Path],
) -> None:
    folder = stand_in("sleep 987 & echo $! > child; sleep 987")
    found = measure(program(TRITON), folder, seconds=3)
    assert isinstance(found, Unavailable)
    assert "still busy after 3 s" in found.reason
    child = int((folder / "child").read_text())
    for _ in range(100):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.02)
    raise AssertionError("its child lives on")


def test_the_table_that_the_profiler_writes_is_read(stand_in: Callable[[str], Path]) -> None:
    script = 'while [ "$1" != "--log-file" ]; do shift; done; cp table "$2"'
    folder = stand_in(script)
    (folder / "table").write_text((RECORDED / "ncu_h200.csv").read_text())
    found = measure(program(TRITON), folder, seconds=30)
    assert isinstance(found, Counted)
    assert len(found.launches) == 19


def test_the_profilers_command_leaves_clocks_alone_and_counts_what_is_read(tmp_path: Path) -> None:
    words = command("/x/ncu", tmp_path, tmp_path / "out.csv")
    assert words[words.index("--clock-control") + 1] == "none"
    assert words[words.index("--profile-from-start") + 1] == "off"
    asked = set(words[words.index("--metrics") + 1].split(","))
    recorded_names = set(
        (RECORDED / "ncu_h200.csv").read_text().splitlines()[1].strip('"').split('","')
    )
    missing = asked - recorded_names
    assert missing <= {"smsp__average_warps_issue_stalled_branch_resolving_per_issue_active.ratio"}
