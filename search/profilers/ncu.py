"""Hardware counters of a candidate's kernels, through Nsight Compute's command line.

A profiler replays each kernel some twenty times in a process that it controls, so that a candidate
is measured here by itself, after it has passed, and never timed. What is given up for it: the
filter of system calls and the rule of one process, because the profiler starts the program and
talks to it. What stays: no network, no capabilities, no file but the libraries and one folder, a
limit on time, the whole group killed at its end. Counters are taken for finalists, or where the
user asks for them.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.bytecode import options
from search.profilers.profiled_process import REQUEST, SOURCE, TENSORS
from search.profilers.timeline import plain_name

_PEAK, _ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
# What is kept of a kernel, and Nsight Compute's name of it. Percentages become fractions.
METRICS: Mapping[str, str] = {
    "seconds": "gpu__time_duration.sum",
    "dram_bytes_read": "dram__bytes_read.sum",
    "dram_bytes_written": "dram__bytes_write.sum",
    "dram_share": "dram__throughput" + _PEAK,
    "l2_share": "lts__throughput" + _PEAK,
    "l2_bytes": "lts__t_bytes.sum",
    "l2_hit": "lts__t_sector_hit_rate.pct",
    "l1_share": "l1tex__throughput" + _ACTIVE,
    "l1_hit": "l1tex__t_sector_hit_rate.pct",
    "load_efficiency": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "store_efficiency": "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
    "sectors_per_load": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "sectors_per_store": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "conflicts_load": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "conflicts_store": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "wavefronts_load": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "wavefronts_store": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "local_sectors_load": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_sectors_store": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "atomic_sectors": "lts__t_sectors_op_atom.sum",
    "reduction_sectors": "lts__t_sectors_op_red.sum",
    "occupancy": "sm__warps_active" + _ACTIVE,
    "occupancy_limit": "sm__maximum_warps_per_active_cycle_pct",
    "sm_share": "sm__throughput" + _PEAK,
    "issue_share": "smsp__issue_active" + _ACTIVE,
    "tensor_share": "sm__pipe_tensor_cycles_active" + _ACTIVE,
    "fma_share": "sm__inst_executed_pipe_fma" + _ACTIVE,
    "alu_share": "sm__inst_executed_pipe_alu" + _ACTIVE,
    "special_share": "sm__inst_executed_pipe_xu" + _ACTIVE,
    "active_lanes": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "cycles_least": "sm__cycles_active.min",
    "cycles_most": "sm__cycles_active.max",
    "registers": "launch__registers_per_thread",
    "shared_static": "launch__shared_mem_per_block_static",
    "shared_dynamic": "launch__shared_mem_per_block_dynamic",
    "threads": "launch__block_size",
    "blocks": "launch__grid_size",
    "waves": "launch__waves_per_multiprocessor",
}
STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle",
    "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction",
    "not_selected", "selected", "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_SECTOR = 32  # bytes
_MOST_LAUNCHES = 64
_SUMS = ("dram_bytes_read", "dram_bytes_written", "l2_bytes")
_SHAPE = ("registers", "waves", "threads", "blocks")
_SHARED = ("static", "dynamic")
# Means over the kernels of a call, weighted by their time.
_MEANS = ("dram_share", "l2_share", "l2_hit", "l1_share", "l1_hit", "occupancy", "occupancy_limit",
          "sm_share", "issue_share", "tensor_share", "fma_share", "alu_share", "special_share",
          "active_lanes")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """Why there are no counters, and what would do."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLaunch:
    """One launch with its counters, by the names of `METRICS` and ``stall_<reason>``."""

    name: str
    grid: str
    block: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The counters of one call."""

    launches: tuple[CountedLaunch, ...]

    def profile(self) -> dict[str, float]:
        """Return the features that an outcome keeps, each with ``ncu_`` before its name.

        Bytes are summed over the call, shares are means weighted by time, what describes a launch
        (registers, shared memory, waves, balance, stalls) is the longest kernel's.
        """
        if not self.launches:
            return {}
        longest = max(self.launches, key=lambda launch: launch.values.get("seconds", 0.0)).values
        found = {name: self._sum(name) for name in _SUMS}
        found["dram_bytes"] = found["dram_bytes_read"] + found["dram_bytes_written"]
        found |= {name: self._mean(name) for name in _MEANS}
        for way in ("load", "store"):
            requests = self._sum(f"{way}_requests")
            if requests:
                found[f"{way}_efficiency"] = self._mean(f"{way}_efficiency", f"{way}_requests")
                found[f"sectors_per_{way}"] = self._mean(f"sectors_per_{way}", f"{way}_requests")
        wavefronts = self._sum("wavefronts_load") + self._sum("wavefronts_store")
        if wavefronts:
            conflicts = self._sum("conflicts_load") + self._sum("conflicts_store")
            found["bank_conflict_share"] = conflicts / wavefronts
        local = self._sum("local_sectors_load") + self._sum("local_sectors_store")
        found["spill_bytes"] = local * _SECTOR
        atomic = self._sum("atomic_sectors") + self._sum("reduction_sectors")
        if found["l2_bytes"]:
            found["atomic_share"] = min(1.0, atomic * _SECTOR / found["l2_bytes"])
        found |= {name: longest[name] for name in _SHAPE if name in longest}
        found["shared_bytes"] = sum(longest.get(f"shared_{kind}", 0.0) for kind in _SHARED)
        if longest.get("cycles_most"):
            found["balance"] = longest.get("cycles_least", 0.0) / longest["cycles_most"]
        stalls = {name: value for name, value in longest.items() if name.startswith("stall_")}
        found |= stalls
        found["stall_total"] = sum(stalls.values())
        return {f"ncu_{name}": value for name, value in found.items()}

    def _sum(self, name: str) -> float:
        return sum(launch.values.get(name, 0.0) for launch in self.launches)

    def _mean(self, name: str, weight: str = "seconds") -> float:
        pairs = [(one.values.get(weight, 0.0), one.values.get(name, 0.0)) for one in self.launches]
        total = sum(amount for amount, _ in pairs)
        return sum(amount * value for amount, value in pairs) / total if total else 0.0


def parse_csv(text: str) -> Counted:
    """Read what ``ncu --csv --page raw --print-units base`` writes.

    Raises:
        ValueError: no table is in it.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(lines))
    if len(rows) < 2 or "Kernel Name" not in rows[0]:
        raise ValueError("no table of counters")
    header, units = rows[0], rows[1]
    wanted = {metric: name for name, metric in METRICS.items()}
    wanted |= {_STALL.format(stall): f"stall_{stall}" for stall in STALLS}
    launches = []
    for row in rows[2:]:
        told = dict(zip(header, row, strict=False))
        values = {
            wanted[metric]: number * _scale(unit)
            for metric, unit, text_value in zip(header, units, row, strict=False)
            if metric in wanted and (number := _number(text_value)) is not None
        }
        launches.append(
            CountedLaunch(
                name=plain_name(told["Kernel Name"].replace("<unnamed>::", "")),
                grid=_shape(told.get("Grid Size", "")),
                block=_shape(told.get("Block Size", "")),
                values=values,
            )
        )
    return Counted(launches=tuple(launches))


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None  # "n/a" where a counter is not there


def _scale(unit: str) -> float:
    return {"%": 0.01, "ns": 1e-9, "us": 1e-6, "nsecond": 1e-9}.get(unit, 1.0)


def _shape(text: str) -> str:
    return "x".join(re.findall(r"\d+", text))


def find_ncu() -> str | None:
    """Return Nsight Compute's command line, None where it is not on PATH or in CUDA's folder."""
    found = shutil.which("ncu")
    if found is None and os.access("/usr/local/cuda/bin/ncu", os.X_OK):
        found = "/usr/local/cuda/bin/ncu"
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledCandidate:
    """A candidate, ready to be run by itself.

    Attributes:
        init: constructor's arguments, as `search.sandbox.runner.encode` gives them.
        inputs: tensors and plain values of one call; `state`: parameters and buffers.
        prebuilt: paths of its native parts by key.
        readable: files and folders that it needs beyond those.
    """

    source: str
    init: Any
    inputs: Sequence[Any]
    state: Mapping[str, Any]
    prebuilt: Mapping[str, str]
    seed: int = 0
    tf32: bool = False
    readable: tuple[str, ...] = ()


def measure(
    program: ProfiledCandidate, folder: Path, seconds: float = 120.0
) -> Counted | Unavailable:
    """Count one call of a program.

    Args:
        folder: empty, for the program's files and the profiler's; the only place it may write to.
        seconds: until everything it started is killed.
    """
    ncu = find_ncu()
    if ncu is None:
        return Unavailable(
            reason="no Nsight Compute here: put ncu on PATH (it comes with CUDA) for hardware counters"
        )
    _write(program, ncu, folder, seconds)
    report = folder / "counters.csv"
    ended, log = _run(ncu, program, folder, report, seconds)
    text = report.read_text(encoding="utf-8", errors="replace") if report.is_file() else ""
    try:
        counted = parse_csv(text)
    except ValueError:
        return Unavailable(reason=_why(text + "\n" + log, ended, seconds))
    return counted


def _write(program: ProfiledCandidate, ncu: str, folder: Path, seconds: float) -> None:
    import torch

    from search.sandbox.sandbox import gpu_devices

    tensors = {
        str(number): value
        for number, value in enumerate(program.inputs)
        if isinstance(value, torch.Tensor)
    }
    request = {
        "init": program.init,
        "prebuilt": dict(program.prebuilt),
        "seed": program.seed,
        "tf32": program.tf32,
        "seconds": seconds,
        "devices": list(gpu_devices()),
        "readable": [
            os.path.dirname(os.path.realpath(ncu)),
            *program.prebuilt.values(),
            *program.readable,
            *filter(None, sys.path),
        ],
        "inputs": [
            "tensor" if isinstance(value, torch.Tensor) else {"value": value}
            for value in program.inputs
        ],
    }
    (folder / SOURCE).write_text(program.source, encoding="utf-8")
    (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
    torch.save({"inputs": tensors, "state": dict(program.state)}, folder / TENSORS)


def command(ncu: str, folder: Path, report: Path) -> list[str]:
    """Return the profiler's command line for the program that lies in `folder`."""
    metrics = [*METRICS.values(), *(_STALL.format(stall) for stall in STALLS)]
    code = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[2])\n"
        "from search.profilers.profiled_process import main; main(sys.argv[1])"
    )
    return [
        ncu, "--clock-control", "none", "--profile-from-start", "off", "--target-processes",
        "application-only", "--launch-count", str(_MOST_LAUNCHES), "--csv", "--page", "raw",
        "--print-units", "base", "--metrics", ",".join(metrics), "--log-file", str(report),
        sys.executable, "-I", *options(), "-c", code, str(folder), json.dumps(sys.path),
    ]  # fmt: skip


def _run(
    ncu: str, program: ProfiledCandidate, folder: Path, report: Path, seconds: float
) -> tuple[int | None, str]:
    """Run the profiler behind its walls; return its exit status, None where its time was up."""
    readable = [
        os.path.dirname(os.path.realpath(ncu)),
        *program.prebuilt.values(),
        *program.readable,
    ]
    code = (
        "import json, sys; told = json.loads(sys.argv[1]); sys.path[:] = told['path']\n"
        "from search.profilers.profiler_sandbox import enclose; enclose(told)"
    )
    told = {
        "path": sys.path,
        "command": command(ncu, folder, report),
        "folder": str(folder),
        "readable": [*readable, *(path for path in sys.path if path)],
        "seconds": seconds,
    }
    with subprocess.Popen(
        [sys.executable, "-I", *options(), "-c", code, json.dumps(told)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            status = None
            output = b""
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    return status, output.decode(errors="replace")[-4000:]


_CAUSES: tuple[tuple[str, Callable[[str], str]], ...] = (
    (
        r"ERR_NVGPUCTRPERM|does not have permission",
        lambda _: (
            "the driver gives counters to administrators only: load the nvidia module with "
            "NVreg_RestrictProfilingToAdminUsers=0, or run as root"
        ),
    ),
    (
        r"LibraryNotLoaded|Failed to initialize the profiler",
        lambda _: (
            "the driver here has no counters for a profiler (a container or sandbox without them?)"
        ),
    ),
    (
        r"another instance|being used by another|resource.*unavailable",
        lambda _: "another profiler uses the device's counters: try again when it has ended",
    ),
    (r"WALL: (.*)", lambda told: f"the program cannot be confined: {told}"),
    (
        r"(\w+(?:Error|Exception): .*)",
        lambda told: f"the program failed under the profiler: {told}",
    ),
    (r"==ERROR== (.*)", lambda told: f"Nsight Compute says: {told}"),
    (r"No kernels were profiled", lambda _: "it launched no kernel"),
)


def _why(text: str, status: int | None, seconds: float) -> str:
    if status is None:
        return (
            f"the profiler was still busy after {seconds:.0f} s: ask for counters of a smaller task"
        )
    for pattern, words in _CAUSES:
        matched = re.search(pattern, text)
        if matched:
            return words(matched[1][:300] if matched.groups() else "")
    last = (text.strip().splitlines() or ["it said nothing"])[-1]
    return f"Nsight Compute ended with status {status}: {last[:300]}"
