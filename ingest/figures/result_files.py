"""Which files hold the measurements of a source, by their names."""

from __future__ import annotations

import re

SOURCES = (".py", ".cu", ".cuh", ".hip", ".cpp", ".cc", ".cxx", ".c", ".ptx")
_FORMATS = (".json", ".yaml", ".yml")
_ENDINGS = (".json", ".metrics.json", ".results.json", ".yaml", ".yml")
# KernelBench names a generated answer so, and keeps the results of a run in one file beside them.
SAMPLE = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel\.py")
RESULTS = "eval_results.json"


def beside(name: str) -> tuple[str, ...]:
    """Return the names that files with the measurements of `name` may have."""
    stem, dot, suffix = name.rpartition(".")
    if f"{dot}{suffix}".lower() not in SOURCES:
        return ()
    shared = (RESULTS,) if SAMPLE.fullmatch(name) else ()
    return (*(f"{stem}{ending}" for ending in _ENDINGS), *shared)


def is_measurement(name: str) -> bool:
    """Say whether a file of this name may hold measurements."""
    return name.lower().endswith(_FORMATS)
