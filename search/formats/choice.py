"""Which format a file has."""

from __future__ import annotations

from pathlib import Path

from kb.errors import TaskError
from search.formats import ForeignTask
from search.formats.definitions import read_definition
from search.formats.gpumode import read_gpumode


def read_foreign(path: Path, workloads: int) -> ForeignTask:
    """Read a task of GPU MODE, flashinfer-bench or SOL-ExecBench; nothing of it is run.

    Args:
        path: a ``task.yml``, a definition (``.json``), or a folder that holds a ``task.yml`` or ``definition.json``.
        workloads: that are taken, at most.

    Raises:
        TaskError: it is none of these, or asks for what cannot be judged; one line says what.
    """
    if path.is_dir():
        inside = [path / name for name in ("task.yml", "task.yaml", "definition.json")]
        path = next((one for one in inside if one.is_file()), path)
    reader = {".yml": read_gpumode, ".yaml": read_gpumode, ".json": read_definition}.get(
        path.suffix
    )
    if reader is not None:
        try:
            return reader(path, workloads)
        except RecursionError as error:
            raise TaskError(
                f"{path}: expected a program, found one that is nested too deeply"
            ) from error
    raise TaskError(
        f"{path}: expected a task.yml (GPU MODE) or a definition in JSON (flashinfer-bench, SOL-ExecBench), "
        "found neither: name the file"
    )
