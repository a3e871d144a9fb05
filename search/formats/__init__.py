"""Task formats of other projects, read into this one's: a reference program and a task file that names it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kb.errors import TaskError

_T = TypeVar("_T")
Size = int | float | str
MOST_BYTES = 4 << 20  # of a file that is read


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTask:
    """A task as this project writes it.

    Attributes:
        name: of both files, without what a file's name cannot hold.
        program: text of the reference, with a function for the inputs of each workload.
        settings: of the task file, ``reference`` not among them.
        notes: what differs from the original, a line each.
    """

    name: str
    program: str
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWorkload:
    """One workload.

    Attributes:
        sizes: values of the program's constants.
        held_out: judged at the end alone.
    """

    name: str
    sizes: Mapping[str, Size]
    held_out: bool = False


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        TaskError: it cannot be read, is no text, or is too large.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise TaskError(
                f"{path}: expected at most {MOST_BYTES >> 20} MiB, found more: name another file"
            )
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(
            f"{path}: expected text, found invalid UTF-8 at byte {error.start}"
        ) from error
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}: check the path") from error


def read_json(path: Path, text: str, where: str = "") -> Any:
    """Return what a JSON text says.

    Raises:
        TaskError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path}{where}: not JSON: {' '.join(str(error).split())[:200]}") from error


def write_reference(
    title: str,
    parts: Sequence[str],
    forward: tuple[Sequence[str], Sequence[str]],
    inputs: Sequence[str],
    workloads: Sequence[ForeignWorkload],
) -> tuple[str, list[dict[str, Any]]]:
    """Return a reference program in KernelBench's form, and the workloads of its task file.

    Args:
        parts: statements that stand before the class.
        forward: names of its arguments, and the lines of its body.
        inputs: lines of the function that returns the inputs as a list.
        workloads: those that count first; the first one's sizes are the program's own.
    """
    arguments, body = forward
    lines = [f'"""{title}"""', "", "import torch", ""]
    lines += [f"{name} = {value!r}" for name, value in workloads[0].sizes.items()]
    for part in parts:
        lines += ["", "", part] if part.startswith(("def ", "class ", "@")) else [part]
    lines += ["", "", "class Model(torch.nn.Module):"]
    lines += [f"    def forward(self, {', '.join(arguments)}):"]
    lines += [f"        {line}" for line in body]
    lines += ["", "", "def get_inputs():", *(f"    {line}" for line in inputs)]
    lines += ["", "", "def get_init_inputs():", "    return []", ""]
    settings = [
        {
            "name": one.name,
            **({"sizes": dict(one.sizes)} if one.sizes else {}),
            **({"held_out": True} if one.held_out else {}),
        }
        for one in workloads
    ]
    return "\n".join(lines), settings


def spread(values: Sequence[_T], number: int) -> list[_T]:
    """Return at most `number` of `values`, from first to last evenly."""
    if len(values) <= number:
        return list(values)
    if number == 1:
        return [values[-1]]
    return [values[at * (len(values) - 1) // (number - 1)] for at in range(number)]
