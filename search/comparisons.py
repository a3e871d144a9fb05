"""The baselines that a task asks for beside eager and torch.compile: modes of the compiler, kernels of one's own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kb.config import user_path
from kb.errors import TaskError

MODES = ("max-autotune", "reduce-overhead")  # of torch.compile, by its own names
_TAKEN = ("eager", "compile", "candidate", *MODES)


def as_names(value: object) -> object:
    """Return a list of a YAML file as a tuple; other values are for the schema to refuse."""
    return tuple(value) if isinstance(value, list) else value


def checked_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the baselines that a task names.

    Raises:
        ValueError: one is neither a mode nor a Python file, or two would have one name.
    """
    for name in names:
        if name not in MODES and not name.endswith(".py"):
            raise ValueError(f"expected {', '.join(MODES)} or the path of a kernel's .py file")
        if name not in MODES and Path(name).stem in _TAKEN:
            raise ValueError(f"expected a kernel's file by another name than {', '.join(_TAKEN)}")
    shown = [shown_name(name) for name in names]
    if len(set(shown)) < len(shown):
        raise ValueError("expected baselines of different names")
    return tuple(names)


def shown_name(name: str) -> str:
    """Return what a baseline is called in outcomes and reports."""
    return name if name in MODES else Path(name).stem


def read_kernels(path: Path, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return name and source of each kernel that a task's baselines name.

    Args:
        path: of the task file, from whose folder paths are seen.

    Raises:
        TaskError: a file cannot be read.
    """
    found = []
    for name in names:
        if name in MODES:
            continue
        file = (path.parent / user_path(name)).absolute()
        try:
            found.append((shown_name(name), file.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise TaskError(
                f"{path}: baselines: expected a readable kernel {file}, found none ({error}): check the path"
            ) from error
    return tuple(found)


def modes_of(task: Any) -> tuple[str, ...]:
    """Return the modes of torch.compile that are baselines of a task."""
    return tuple(name for name in task.settings.baselines if name in MODES)


def identity_of(task: Any) -> tuple[str, ...]:
    """Return what an outcome depends on besides: empty where the usual baselines are asked for."""
    without = () if task.settings.compiler else ("no torch.compile",)
    if not task.settings.baselines:
        return without
    text = "\0".join((*modes_of(task), *(part for pair in task.kernels for part in pair)))
    return (
        *without,
        f"baselines {hashlib.sha256(text.encode()).hexdigest()[:12]}",
    )
