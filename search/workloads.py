"""Workloads: several inputs of one task, each with a weight, for one candidate and one verdict."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kb.errors import TaskError


class WorkloadSettings(BaseModel):
    """One workload of a task file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=1, max_length=60)
    weight: Annotated[float, Field(gt=0, strict=False)] = 1.0
    sizes: dict[str, int | float | str] = Field(
        default={}, description="values of the reference's constants, by name"
    )
    inputs: str | None = Field(
        default=None, description="a function of the reference in the place of get_inputs"
    )
    held_out: bool = Field(
        default=False, description="judged at the end alone: no candidate is chosen by it"
    )

    @field_validator("inputs")
    @classmethod
    def _function(cls, value: str | None) -> str | None:
        if value is not None and (not value.isidentifier() or keyword.iskeyword(value)):
            raise ValueError("expected the name of a function of the reference")
        return value


def checked_workloads(found: Sequence[WorkloadSettings]) -> tuple[WorkloadSettings, ...]:
    """Return the workloads of a task.

    Raises:
        ValueError: two have one name, or all are held out.
    """
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise ValueError("expected workloads of different names")
    if found and all(one.held_out for one in found):
        raise ValueError("expected a workload that is not held out")
    return tuple(found)


def chief(workloads: Sequence[WorkloadSettings]) -> WorkloadSettings:
    """Return the workload that counts most, the first of equals: what is written for one shape is for its."""
    return max((one for one in workloads if not one.held_out), key=lambda one: one.weight)


def task_of(task: Any, workload: WorkloadSettings) -> Any:
    """Return the task of one workload alone: the same reference on its inputs.

    Args:
        task: a `search.task.Task` with workloads.

    Raises:
        TaskError: the reference has no such constant or function.
    """
    source = with_sizes(task.source, workload.sizes, f"{task.path}: workload {workload.name!r}")
    if workload.inputs is not None:
        tree = ast.parse(source)
        functions = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
        if workload.inputs not in functions:
            raise TaskError(
                f"{task.path}: workload {workload.name!r}: expected a function {workload.inputs}() in the reference, "
                f"found {', '.join(functions) or 'none'}"
            )
        source = f"{source.rstrip()}\n\n\nget_inputs = {workload.inputs}\n"
    settings = task.settings.model_copy(update={"workloads": ()})
    return replace(task, source=source, settings=settings)


def with_sizes(source: str, sizes: Mapping[str, int | float | str], where: str) -> str:
    """Return a program whose module-level constants have other values.

    What is computed from them when the module is run follows, since they are replaced where they stand.

    Args:
        where: begins the message of an error.

    Raises:
        TaskError: there is no such constant.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise TaskError(f"{where}: the reference is not Python: {error}") from error
    places: dict[str, ast.expr] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
            if isinstance(target, ast.Name):
                places[target.id] = value
    lines = source.encode().splitlines(keepends=True)
    for name in sizes:
        if name not in places:
            raise TaskError(
                f"{where}: expected sizes of constants that the reference assigns at its top, found {name!r}: "
                f"it has {', '.join(places) or 'none'}"
            )
    # From the end, so that what lies before keeps its place.
    for name in sorted(sizes, key=lambda one: (places[one].lineno, places[one].col_offset))[::-1]:
        node = places[name]
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = node.lineno - 1, node.end_lineno - 1
        head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [head + repr(sizes[name]).encode() + tail]
    return b"".join(lines).decode()


def workload_facts(workloads: Sequence[WorkloadSettings]) -> tuple[str, ...]:
    """Return what a prompt says of a task's workloads; those that are held out are not told."""
    if not workloads:
        return ()
    told = [
        f"{one.name}: {', '.join(f'{k} = {v}' for k, v in one.sizes.items()) or one.inputs or 'as in the reference'}"
        f" (weight {one.weight:g})"
        for one in workloads
        if not one.held_out
    ]
    return (
        "The module is judged on several inputs, and must be right and no slower than the framework on each; "
        f"shapes that are not listed are tried, too: {'; '.join(told)}",
    )
