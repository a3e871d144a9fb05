"""What the zygote does once, so that no runner has to: import Triton, start its compiler.

Nothing here may touch the device: a process forked from one that has a CUDA context cannot use CUDA.
"""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec


def warm(capability: int) -> None:
    """Compile one kernel for `capability` (90 is sm_90), so that forked children compile at once."""
    if find_spec("triton") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        try:
            _compile(capability)
        finally:
            del os.environ["TRITON_CACHE_DIR"]


def _compile(capability: int) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia import compiler, driver
    from triton.compiler import ASTSource

    from search.judging.cuda.probe_kernel import copy_kernel

    compiler.get_ptxas_version(capability)  # cached: a runner may not start ptxas
    try:
        driver.libcuda_dirs()
    except AssertionError:
        return  # no driver: nothing will run here either
    signature = {"source": "*fp32", "target": "*fp32", "count": "i32", "BLOCK": "constexpr"}
    source = ASTSource(copy_kernel, signature=signature, constexprs={(3,): 128})
    triton.compile(source, target=GPUTarget("cuda", capability, 32))
