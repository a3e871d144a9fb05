"""The kernel that is compiled to see, or to make sure, that Triton works."""

from __future__ import annotations

import triton
import triton.language as tl


# Triton reads every name in a signature as its own: no annotation but its own can stand there.
@triton.jit  # type: ignore[untyped-decorator]
def copy_kernel(source, target, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    """Copy `count` elements, `BLOCK` by a program."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    tl.store(target + places, tl.load(source + places, mask=inside), mask=inside)
