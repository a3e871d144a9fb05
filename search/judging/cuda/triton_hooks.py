"""In the runner: Triton's calls of ptxas and of the C compiler are asked of the judge instead.

A runner may not start programs. The judge compiles what it is sent in a sandbox of its own, keeps it by
content where no candidate can write, and so knows which kernels a candidate has brought.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Ask = Callable[[dict[str, Any]], dict[str, Any]]


def install(ask: Ask) -> None:
    """Send compilations through `ask`, which returns ``{"path": …}`` or ``{"error": …}``."""
    if find_spec("triton") is None:
        return
    from triton import knobs
    from triton.backends.nvidia import compiler
    from triton.runtime.errors import PTXASError

    def make_cubin(_backend: Any, src: str, _metadata: Any, opt: Any, capability: int) -> bytes:
        answer = ask(
            {
                "what": "ptx",
                "text": src,
                "arch": compiler.sm_arch_from_capability(capability),
                "fmad": bool(opt.enable_fp_fusion),
                "options": str(opt.ptx_options or ""),
            }
        )
        if "path" not in answer:
            raise PTXASError(str(answer.get("error")))
        return Path(answer["path"]).read_bytes()

    def build(name: str, src: str, *_rest: Any) -> str:
        answer = ask({"what": "c", "name": name, "text": Path(src).read_text(encoding="utf-8")})
        if "path" not in answer:
            raise RuntimeError(str(answer.get("error")))
        return str(answer["path"])

    compiler.CUDABackend.make_cubin = make_cubin
    knobs.build.impl = build
