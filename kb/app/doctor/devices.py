"""What `kb doctor` looks at on a GPU: the device, its record, its tools, its counters."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from kb.app.doctor.finding import CheckResult
from kb.config import Home
from kb.errors import ConfigError

if TYPE_CHECKING:
    from search.targets.cuda import DeviceFacts

_ADMIN_ONLY = re.compile(r"RmProfilingAdminOnly:\s*1")


def gpu(home: Home) -> Iterator[CheckResult]:
    """Look at the first NVIDIA device, and at what kernels for it are made with."""
    from search.targets.cuda import read_device

    facts = read_device()
    if facts is None:
        yield CheckResult(
            part="gpu",
            state="off",
            detail="no NVIDIA device or driver here: kernels for a GPU are compiled and checked, never timed",
        )
    else:
        yield _device(facts)
        yield from _record(facts, home)
        yield _torch()
    yield _triton()
    yield _nvcc()
    if facts is not None:
        yield _ncu()


def counters(_home: Home) -> Iterator[CheckResult]:
    """Say which counters of the processor this machine gives."""
    from search.profilers.perf import availability

    reading = availability()
    hardware = [
        name for name in ("cycles", "instructions", "cache_misses") if name in reading.counts
    ]
    if hardware:
        names = ", ".join(sorted(reading.counts)).replace("_", " ")
        yield CheckResult(part="counters", state="works", detail=names)
        return
    reason = reading.missing.get("cycles", "unknown")
    rest = ", ".join(sorted(reading.counts)).replace("_", " ") or "none"
    yield CheckResult(
        part="counters",
        state="off",
        detail=f"no hardware counters of the processor: {reason}; of the kernel: {rest}",
    )


def _device(facts: DeviceFacts) -> CheckResult:
    state = facts.state
    told = (
        f"{facts.name}, {facts.architecture}, {facts.sms} SMs, {facts.memory / 2**30:.0f} GiB, "
        f"driver {facts.driver} (CUDA {facts.cuda})"
    )
    if state is None:
        return CheckResult(
            part="gpu", state="limited", detail=f"{told}: it does not tell its clocks"
        )
    degrees = f", {state.temperature:.0f} degrees" if state.temperature is not None else ""
    told += f", {state.sm_clock / 1e6:.0f} of {(facts.clock or 0) / 1e6:.0f} MHz{degrees}"
    if state.trouble:
        reasons = ", ".join(state.reasons)
        return CheckResult(
            part="gpu",
            state="limited",
            detail=f"{told}: held down by {reasons}",
            advice="let it cool, or look after its power: times taken now are not its best",
        )
    return CheckResult(part="gpu", state="works", detail=told)


def _record(facts: DeviceFacts, home: Home) -> Iterator[CheckResult]:
    from kb.records.schema import TargetRecord
    from kb.records.targets import load_targets
    from search.targets.gpus import disagreements, match_gpu

    try:
        document = match_gpu(load_targets(home), facts)
    except ConfigError as error:
        yield CheckResult(part="gpu record", state="limited", detail=str(error))
        return
    record = document.record
    assert isinstance(record, TargetRecord)
    lines = disagreements(record, facts)
    for line in lines:
        yield CheckResult(
            part="gpu record",
            state="limited",
            detail=line,
            advice=f"the driver is right: correct {document.path}",
        )
    if not lines:
        yield CheckResult(
            part="gpu record",
            state="works",
            detail=f"{record.name}: {record.title}, agrees with the driver",
        )


def _torch() -> CheckResult:
    from search.targets.cuda import torch_trouble

    trouble = torch_trouble()
    if trouble is None:
        return CheckResult(
            part="gpu torch", state="works", detail=f"torch {version('torch')} uses it"
        )
    return CheckResult(
        part="gpu torch",
        state="broken",
        detail=trouble,
        advice="install a torch that is built for CUDA and this driver",
    )


def _triton() -> CheckResult:
    try:
        return CheckResult(part="triton", state="works", detail=f"triton {version('triton')}")
    except PackageNotFoundError:
        return CheckResult(
            part="triton",
            state="off",
            detail="not installed: no kernels in Triton, no dry run of them",
            advice="pip install 'kernel-kb[triton]'",
        )


def _nvcc() -> CheckResult:
    path = shutil.which("nvcc")
    if path is None:
        return CheckResult(
            part="nvcc",
            state="off",
            detail="not on PATH: no kernels in CUDA C++ by nvcc",
            advice="install CUDA's compiler, or put it on PATH",
        )
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    release = re.search(r"release [\d.]+", told.stdout)
    return CheckResult(
        part="nvcc", state="works", detail=f"{path}, {release[0] if release else '?'}"
    )


def _ncu() -> CheckResult:
    from search.profilers.ncu import find_ncu

    path = find_ncu()
    if path is None:
        return CheckResult(
            part="ncu",
            state="off",
            detail="no Nsight Compute: a diagnosis has no hardware counters",
            advice="put ncu on PATH (it comes with CUDA)",
        )
    try:
        parameters = Path("/proc/driver/nvidia/params").read_text(encoding="utf-8")
    except OSError:
        parameters = ""
    if _ADMIN_ONLY.search(parameters) and os.geteuid() != 0:
        return CheckResult(
            part="ncu",
            state="limited",
            detail=f"{path}, but the driver gives counters to administrators only",
            advice="load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0",
        )
    return CheckResult(part="ncu", state="works", detail=path)
