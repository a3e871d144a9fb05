"""Which instructions this processor has, as Inductor finds it out: programs are compiled and run."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Any


def find_instructions() -> None:
    """Have it found out once which instructions the processor has: each fork would run programs for that, for 1.5 s."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whether they run is to be seen
    with suppress(OSError, RuntimeError):  # then the fork says so
        pick_vec_isa()
    signal.signal(signal.SIGCHLD, before)


def compiler_flags() -> list[str]:
    """Return the flags that Inductor gives g++, as far as they change what the kernels compute.

    The version of torch is among them: its headers decide the machine code too.
    """
    import torch
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    isa: Any = pick_vec_isa()
    macros = isa.build_macro() if isa else []
    flags = [
        f"-D{macro}" for macro in ("NDEBUG", "TORCH_INDUCTOR_CPP_WRAPPER", "STANDALONE_TORCH_HEADER",
                                   "C10_USING_CUSTOM_GENERATED_MACROS", *macros)
    ]  # fmt: skip
    return [
        *flags,
        f"-DKB_TORCH={torch.__version__}",
        "-std=gnu++20",
        "-fno-trapping-math",
        "-fno-math-errno",
        "-ffp-contract=off",
        "-fno-tree-loop-vectorize",
    ]
