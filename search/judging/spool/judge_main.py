"""The process that holds a judge for one task; `search.judging.spool.judge_process` starts it and asks it.

A judge may end its process: a reference that exhausts memory, a device that falls over, a compiler
that crashes. The loop that serves the folder must outlive that, so it never imports torch itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kb.errors import KbError, TaskError, ToolchainError
from search.judged import Device, JudgedTarget
from search.judging import Judge
from search.judging.known_kernels import measure
from search.judging.limits import Limits
from search.judging.local import local_version, open_local
from search.judging.spool.job import Job, read_job, write_prepared
from search.outcome import to_json

_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDevice:
    """The device that this process judges on.

    Attributes:
        name: as the device calls itself.
        facts: for people.
    """

    device: Device
    name: str
    context: str
    facts: dict[str, Any]


def survey(wanted: str) -> LocalDevice:
    """Look at the device: the first NVIDIA GPU, or the processor.

    Args:
        wanted: ``cpu``, ``cuda``, or ``auto`` for the GPU where there is one.

    Raises:
        ToolchainError: torch is missing, or sees no such device.
    """
    try:
        import torch
    except ImportError as error:
        raise ToolchainError(
            f"judging needs torch, which {sys.executable} cannot import ({error}): install torch, or use the Python that has it"
        ) from error
    facts: dict[str, Any] = {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "kernel": platform.release(),
        "unit": os.environ.get("CUDA_VISIBLE_DEVICES", ""),  # which of several alike it is
    }
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise ToolchainError(
            "expected an NVIDIA GPU, torch sees none: check the driver (nvidia-smi) and that this is a CUDA build of torch, "
            "or use --device cpu"
        )
    if wanted == "cpu" or not there:
        from search.targets.cpu import read_facts

        told = read_facts()
        facts |= {"device": told.name, "cores": told.cores}
        return _place("cpu", told.name, facts)
    shape = torch.cuda.get_device_properties(0)
    facts |= {
        "device": shape.name,
        "architecture": f"sm_{shape.major}{shape.minor}",
        "memory": shape.total_memory,
        "cuda": torch.version.cuda,
    }
    with suppress(PackageNotFoundError):
        facts["triton"] = version("triton")
    return _place("cuda", shape.name, facts)


def _place(device: Device, name: str, facts: dict[str, Any]) -> LocalDevice:
    parts = (local_version(device), name, facts["torch"], facts.get("triton"))
    context = " / ".join(part for part in parts if part)
    return LocalDevice(device=device, name=name, context=context, facts=facts)


def mismatch(target: JudgedTarget, place: LocalDevice) -> str | None:
    """Say why `place` is not the device that `target` describes, None where it is."""
    match = target.match
    if place.device == "cuda":
        if match.gpu_name is None or match.gpu_name.lower() in place.name.lower():
            return None
        return f"the task is for {target.name} ({match.gpu_name}), this device is {place.name}"
    from search.targets.cpu import read_facts

    facts = read_facts()
    wanted = (match.cpu_vendor, match.cpu_family)
    differs = any(
        mine is not None and mine != found
        for mine, found in zip(wanted, (facts.vendor, facts.family), strict=True)
    )
    if match.cpu_models and facts.model not in match.cpu_models:
        differs = True
    if differs or not set(match.cpu_flags) <= facts.flags:
        return f"the task is for {target.name}, this processor is {facts.name}"
    return None


def make_bench(job: Job, place: LocalDevice, cache: Path) -> Judge:
    """Build the judge that `job` needs; its reference is written below `cache`.

    Raises:
        KbError: the task cannot be judged on this device.
    """
    from search.reference import load_problem

    wrong = mismatch(job.target, place)
    if wrong is not None:
        raise TaskError(f"{wrong}: name the right target in the task, or start kb judge there")
    task = job.task
    task.reference.parent.mkdir(parents=True, exist_ok=True)
    task.reference.write_text(task.source, encoding="utf-8")
    problem = load_problem(task, device=place.device)
    chosen: dict[str, Any] = dict(job.limits)
    return open_local(place.device, problem, job.target, folder=cache, limits=Limits(**chosen))


class Holder:
    """Answers over a socket, one JSON object a line."""

    def __init__(self, channel: socket.socket, place: LocalDevice, cache: Path) -> None:
        self._channel = channel
        self._place = place
        self._cache = cache
        self._bench: Judge | None = None

    def serve(self) -> None:
        """Answer until the other side hangs up."""
        self._send(
            {
                "context": self._place.context,
                "device": self._place.device,
                "facts": self._place.facts,
            }
        )
        with self._channel.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                try:
                    answer = self._answer(message)
                except KbError as error:
                    answer = {"failure": {"kind": type(error).__name__, "reason": str(error)}}
                self._send(answer)
        if self._bench is not None:
            self._bench.close()

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        if "calibrate" in message:
            return {"calibration": asdict(measure(self._place.device))}
        job = read_job(message["job"], Path(message["reference"]))
        if self._bench is None:
            self._bench = make_bench(job, self._place, self._cache)
        prepared = self._bench.prepare(lambda doing: self._send({"progress": doing}))
        if job.source is None:
            return {"prepared": write_prepared(prepared)}
        outcome = self._bench.judge(job.source, thorough=job.thorough)
        return {"outcome": json.loads(to_json(outcome))}

    def _send(self, message: dict[str, Any]) -> None:
        self._channel.sendall(json.dumps(message).encode() + b"\n")


def main() -> None:
    """Run in a process of its own: arguments are the descriptor, the device and the cache."""
    descriptor, wanted, cache = sys.argv[1:4]
    channel = socket.socket(fileno=int(descriptor))
    # The loop may be killed without a word; nothing of this process may outlive it.
    ctypes.CDLL(None, use_errno=True).prctl(_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what a reference prints is no answer
    try:
        place = survey(wanted)
    except KbError as error:
        failure = {"failure": {"kind": type(error).__name__, "reason": str(error)}}
        channel.sendall(json.dumps(failure).encode() + b"\n")
        return
    Holder(channel, place, Path(cache)).serve()


if __name__ == "__main__":
    main()
