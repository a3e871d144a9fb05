"""The judge of a device of this machine, wherever its task came from: a run, a folder, the database, the corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from search.judged import Device, JudgedTarget
    from search.judging import Judge
    from search.judging.limits import Limits
    from search.reference import Problem
    from search.sandbox.zygote import Zygote


def open_local(
    device: Device,
    problem: Problem,
    target: JudgedTarget,
    *,
    folder: Path,
    limits: Limits | None = None,
    zygote: Zygote | None = None,
) -> Judge:
    """Start the judge that times candidates on `device`; prepare it before use.

    Args:
        problem: the reference, loaded on the device.
        target: the figures of the device.
        folder: for builds and compilers' caches; it may be shared by runs.
        limits: what a candidate may use.
        zygote: the warm process, where several judges share one; its owner closes it.
    """
    if device == "cuda":
        from search.judging.cuda.judge import CudaJudge

        return CudaJudge(problem, target, folder=folder, limits=limits, zygote=zygote)
    from search.judging.cpu.judge import CpuJudge

    return CpuJudge(problem, target, folder=folder, limits=limits, zygote=zygote)


def local_version(device: Device) -> str:
    """Return the version of the judge of `device`, which is a part of every outcome's identity."""
    if device == "cuda":
        from search.judging.cuda.judge import JUDGE_VERSION as CUDA_VERSION

        return CUDA_VERSION
    from search.judging.cpu.judge import JUDGE_VERSION

    return JUDGE_VERSION
