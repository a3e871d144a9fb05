"""A closer look at a program on a GPU: hardware counters, taken once for each source and kept."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from search.finding import Look
from search.profilers.ncu import METRICS, ProfiledCandidate, Unavailable, measure


def look(program: ProfiledCandidate, folder: Path, seconds: float = 120.0) -> Look:
    """Return the counters of a program that passed.

    They are kept by content, so that a resumed run is told the same as an unbroken one. Without
    them the look says why, in a note that stands in the diagnosis.

    Args:
        folder: where counters are kept; it is made where it is missing.
        seconds: that the profiler may take.
    """
    kept = folder / f"{_key(program)}.json"
    if kept.is_file():
        return Look(features=json.loads(kept.read_text(encoding="utf-8")))
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="ncu-", dir=folder))
    try:
        found = measure(program, scratch, seconds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if isinstance(found, Unavailable):
        return Look(notes=(f"No hardware counters: {found.reason}.",))
    features = found.profile()
    if not features:
        return Look(notes=("No hardware counters: it launched no kernel under the profiler.",))
    text = json.dumps(features, sort_keys=True)
    (scratch_file := kept.with_suffix(".part")).write_text(text, encoding="utf-8")
    scratch_file.replace(kept)
    return Look(features=features)


def _key(program: ProfiledCandidate) -> str:
    """Name what decides the counters: the program, its arguments' shapes, and what is counted."""
    shapes = [
        [str(value.dtype), list(value.shape)] if hasattr(value, "shape") else repr(value)
        for value in program.inputs
    ]
    parts = (program.source, program.init, shapes, program.tf32, sorted(METRICS.values()))
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]
