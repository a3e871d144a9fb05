"""Starts the process that asks Inductor for a program's code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kb.records.schema import TargetRecord
from search.codegen.inductor import Captured, Uncaptured

_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU that code is written for.

    Attributes:
        figures: see `absent_gpu`; None where code is written only on a machine that has one.
    """

    figures: Mapping[str, Any] | None


def device_of(target: TargetRecord) -> Device | None:
    """Return the GPU that `target` is, None for a processor."""
    if target.device != "gpu":
        return None
    matched = re.fullmatch(r"sm_(\d+)(\d)a?", target.architecture)
    if matched is None:
        return Device(figures=None)
    figures = {
        "capability": [int(matched[1]), int(matched[2])],
        "units": target.units,
        "shared": target.limits["shared_memory_per_block"],
        "name": target.title,
    }
    return Device(figures=figures)


def capture(
    source: str,
    program: str | None = None,
    stubs: Sequence[Mapping[str, Any]] = (),
    device: Device | None = None,
) -> Captured:
    """Return what torch.compile writes for a reference.

    Args:
        source: of the reference.
        program: a module with the class ``ModelNew`` that is compiled in its place.
        device: a GPU; a processor where it is None.
        stubs: operators of the namespace ``kb`` that `program` calls, see `search.codegen.inductor.capture`.

    Raises:
        Uncaptured: it writes nothing of which a candidate could be made.
    """
    request: dict[str, Any] = {"source": source, "program": program, "stubs": [*stubs]}
    if device is not None:
        request |= {"device": "cuda", "figures": device.figures}
    return Captured.of(_told(json.dumps(request)))


@lru_cache(maxsize=32)
def _answer(request: str) -> str:
    # The compiler's threads, caches and settings end with the process.
    folder = Path(__file__).parents[3]
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "search.codegen.inductor.capture"]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, text=True, check=False,
            timeout=_SECONDS, env=environment, cwd=folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return json.dumps({"reason": f"torch.compile was still busy after {_SECONDS:.0f} s"})
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return json.dumps({"reason": f"the process that asks torch.compile ended: {last[:300]}"})
    return done.stdout


def _told(request: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_answer(request))
    if "reason" in told:
        raise Uncaptured(told["reason"])
    return told
