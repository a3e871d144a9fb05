"""In the runner: the judge is told when CuTe DSL begins to compile, and waits for as long as that takes.

NVIDIA's package compiles in the process that uses it and starts no program, so that nothing has to be
asked of the judge. What is told is not answered: a timed call must not wait for anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

WHAT = "cute"
# The judge's own device is asked for by the driver; what is compiled is kept in memory alone.
ENVIRONMENT = {"CUTE_DSL_DISABLE_FILE_CACHING": "1"}
SCRATCH = ("CUTE_DSL_CACHE_DIR", "CUTE_DSL_DUMP_DIR")


def install(tell: Callable[[dict[str, Any]], None]) -> None:
    """Call `tell` with ``{"what": "cute"}`` whenever a function is compiled that was not before."""
    dsl: Any = import_module("cutlass.cutlass_dsl").CuTeDSL
    stock = dsl.compile_and_cache

    def compile_and_cache(made: Any, *args: Any, **kwargs: Any) -> Any:
        tell({"what": WHAT})
        return stock(made, *args, **kwargs)

    dsl.compile_and_cache = compile_and_cache
