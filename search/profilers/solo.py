"""Calls one candidate a few times in a process of its own, for a profiler that watches it.

Started by `search.profilers.ncu`, behind walls; it needs torch and nothing else of `kb` than what a
candidate may import.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
import types
from pathlib import Path
from typing import Any

REQUEST, TENSORS, SOURCE = "request.json", "tensors.pt", "candidate.py"
_WARM = 2  # calls before the watched one: compilers and autotuners are done by then


def main(folder: str) -> None:
    """Load what `folder` holds, warm it up, and call it once between two marks for the profiler."""
    import torch

    import kb.native
    from search.judging.runner import decode

    place = Path(folder)
    request = json.loads((place / REQUEST).read_text(encoding="utf-8"))
    _confine(folder, request)
    told = torch.load(place / TENSORS, map_location="cuda", weights_only=True)
    source = (place / SOURCE).read_text(encoding="utf-8")
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = bool(request["tf32"])
    torch.backends.cudnn.allow_tf32 = bool(request["tf32"])
    kb.native.prebuilt, kb.native.sealed = dict(request["prebuilt"]), bool(request["prebuilt"])
    module = _execute(source)
    torch.manual_seed(request["seed"])
    model = module.ModelNew(*decode(request["init"]))
    if isinstance(model, torch.nn.Module):
        model = model.to("cuda")
        model.load_state_dict(told["state"])
    inputs = [
        told["inputs"][str(number)] if kind == "tensor" else kind["value"]
        for number, kind in enumerate(request["inputs"])
    ]
    _call(model, inputs)


def _confine(folder: str, request: dict[str, Any]) -> None:
    """Start CUDA, then narrow the walls that the profiler needed: as for a runner, but with compilers.

    Threads that the profiler has started before keep the outer walls only.
    """
    from search.judging.sandbox import Cell, enter, missing

    environment = dict(os.environ)
    cell = Cell(
        single=False,
        readable=tuple(request["readable"]),
        writable=(folder,),
        memory=1 << 40,
        cpu_seconds=int(request["seconds"]) * 4,
        file_bytes=4 << 30,
        devices=tuple(request["devices"]),
    )
    lacking = missing(enter(cell, _start_device))
    os.environ.update(environment)
    if lacking:
        reasons = ", ".join(f"{part.name} ({part.detail})" for part in lacking)
        sys.stdout.write(f"WALL: {reasons}\n")
        sys.stdout.flush()
        os._exit(114)


def _start_device() -> None:
    import torch

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()


def _execute(source: str) -> Any:
    module = types.ModuleType("candidate")
    module.__file__ = SOURCE
    sys.modules["candidate"] = module
    # Triton reads the text of its kernels by the name of their file.
    linecache.cache[SOURCE] = (len(source), None, source.splitlines(keepends=True), SOURCE)
    exec(compile(source, SOURCE, "exec"), module.__dict__)  # noqa: S102 - that is what this process is for
    return module


def _call(model: Any, inputs: list[Any]) -> None:
    import torch

    for _ in range(_WARM):
        model(*inputs)
    torch.cuda.synchronize()
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    runtime.cudaProfilerStart()
    model(*inputs)
    torch.cuda.synchronize()
    runtime.cudaProfilerStop()
