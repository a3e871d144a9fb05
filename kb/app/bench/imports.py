"""Writes tasks of other projects' formats as this project's task files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from kb.errors import TaskError
from search.formats import ForeignTask
from search.formats.choice import read_foreign
from search.formats.solutions import (
    SolutionForm,
    SolutionTitle,
    write_solution,
    write_submission,
)

if TYPE_CHECKING:
    from kb.app.history import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A task that was written.

    Attributes:
        task: its task file; the reference lies beside it.
        notes: what differs from the original, a line each.
    """

    task: Path
    reference: Path
    workloads: int
    notes: tuple[str, ...]


def import_task(path: Path, folder: Path, workloads: int) -> Imported:
    """Read a foreign task and write its task file and reference into `folder`; nothing of it is run.

    Raises:
        TaskError: it cannot be read, or a file of its name is there.
    """
    found = read_foreign(path, workloads)
    found = replace(found, notes=tuple(map(_one_line, found.notes)))
    reference, task = folder / f"{found.name}.py", folder / f"{found.name}.yaml"
    for file in (reference, task):
        if file.exists():
            raise TaskError(f"{file} is there already: remove it, or name another folder with -o")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reference.write_text(found.program, encoding="utf-8")
        task.write_text(_task_text(found, reference.name), encoding="utf-8")
    except OSError as error:
        raise TaskError(
            f"cannot write into {folder}: {error.strerror}: name another folder with -o"
        ) from error
    return Imported(
        task=task,
        reference=reference,
        workloads=len(found.settings.get("workloads", ())),
        notes=found.notes,
    )


def export_winner(run: Run, task: Path, hardware: str | None) -> str:
    """Return a run's winner in the format of the task that it solves.

    Args:
        task: a ``task.yml`` or a definition.
        hardware: as SOL-ExecBench (``B200``, ``LOCAL``) or flashinfer-bench (``NVIDIA_H100``) writes it, which
            says which of the two is written; None for ``LOCAL``.

    Raises:
        TaskError: nothing has won, or the task is another.
        StoreError: the run has no winner.
    """
    source = run.standalone()
    if task.suffix in (".yml", ".yaml"):
        return write_submission(task, source)
    named = hardware or "LOCAL"
    form: SolutionForm = "flashinfer-bench" if named.startswith("NVIDIA_") else "sol-execbench"
    title = SolutionTitle(name=run.row.run, form=form, hardware=named)
    return write_solution(task, source, title)


def _one_line(note: str) -> str:
    """Return a note, which may quote the task, as what can be a comment and nothing else."""
    return "".join(letter if letter.isprintable() else " " for letter in note)


def _task_text(found: ForeignTask, reference: str) -> str:
    values = {"reference": reference, "name": found.name, **found.settings}
    notes = "".join(f"# {note}\n" for note in found.notes)
    return notes + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)
