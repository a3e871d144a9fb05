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

    import kb.native  # noqa: F401 - the candidate imports it, and may not read its file
    from kb.runtime import cpp
    from search.sandbox.parameters import construct
    from search.sandbox.runner import decode

    place = Path(folder)
    request = json.loads((place / REQUEST).read_text(encoding="utf-8"))
    _confine(folder, request)
    told = torch.load(place / TENSORS, map_location="cuda", weights_only=True)
    source = (place / SOURCE).read_text(encoding="utf-8")
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = bool(request["tf32"])
    torch.backends.cudnn.allow_tf32 = bool(request["tf32"])
    cpp.prebuilt, cpp.sealed = dict(request["prebuilt"]), bool(request["prebuilt"])
    module = _execute(source)
    init = decode(request["init"])
    model = construct(lambda: module.ModelNew(*init), told["state"], request["seed"])
    if isinstance(model, torch.nn.Module):
        model = model.to("cuda")
        model.load_state_dict(told["state"])
    inputs = [
        told["inputs"][str(number)] if kind == "tensor" else kind["value"]
        for number, kind in enumerate(request["inputs"])
    ]
    _call(model, inputs)


def _confine(folder: str, request: dict[str, Any]) -> None:
    """Narrow the walls that the profiler needed: of /proc, only this process's own may be written.

    Threads that the profiler has started before keep the outer walls only. A runner's other walls
    cannot be added here: the profiler's part within this process does not survive them.
    """
    from search.profilers.profiler_sandbox import DRIVER, SHARED
    from search.sandbox import landlock
    from search.sandbox.sandbox import system_paths

    readable = (*system_paths(), *DRIVER, *request["readable"])
    writable = (folder, f"/proc/{os.getpid()}", *SHARED, *request["devices"])
    landlock.restrict(readable, writable)


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
