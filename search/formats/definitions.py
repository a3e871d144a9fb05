"""Definitions and workloads of flashinfer-bench and of SOL-ExecBench, whose schemas are one family.

Definition: https://github.com/flashinfer-ai/flashinfer-bench, docs/flashinfer_trace/definition.md;
https://github.com/NVIDIA/SOL-ExecBench, docs/definition.md, which adds axes that are expressions and inputs that the
reference makes itself (``custom_inputs_entrypoint``). Workloads are lines of JSON, bare or in a trace.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kb.errors import TaskError
from search.formats import (
    ForeignTask,
    ForeignWorkload,
    Size,
    read_json,
    read_text,
    spread,
    write_reference,
)
from search.formats.schema import (
    FLOATS,
    ConstantAxis,
    InputSource,
    KernelDefinition,
    KernelWorkload,
    VariableAxis,
    load_definition,
    parsed,
)

_MOST_AXIS = 1 << 40
_AXIS, _SCALAR = "axis_", "scalar_"  # begin the names of a program's constants
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_TAKEN = ("Model", "get_inputs", "get_init_inputs", "_drawn")


def read_definition(path: Path, workloads: int) -> ForeignTask:
    """Read a definition with its workloads, which lie in a ``.jsonl`` file beside it.

    They are sought in ``workload.jsonl``, in a file of the definition's name, and in the folders ``workloads/`` that
    flashinfer's data set has.

    Raises:
        TaskError: it is no definition, or has no workload that can be judged here; one line says why.
    """
    definition = load_definition(path)
    file = _workload_file(path, definition.name)
    notes = [
        f"workloads are those of {file.name}; their tolerances are not asked, this project's are"
    ]
    found = _workloads(file, definition, notes)
    if not found:
        raise TaskError(
            f"{file}: expected a workload of random, scalar or custom inputs, found none: {' '.join('; '.join(notes[1:]).split())[:300]}"
        )
    kinds = _kinds(found[0])
    odd = [one for one in found if _kinds(one) != kinds]
    notes += [f"workload {one.uuid[:36]} is left out: it has other kinds of inputs" for one in odd]
    found = [one for one in found if one not in odd]
    chosen = spread(sorted(found, key=lambda one: math.prod(one.axes.values())), workloads)[::-1]
    if len(chosen) < len(found):
        notes.append(f"{len(chosen)} of {len(found)} workloads are taken (--workloads takes more)")
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", definition.name)[:80]
    source, names = _reference(definition, path)
    arguments = [
        name if name not in _TAKEN and name != names["run"] else f"x_{name}"
        for name in definition.inputs
    ]
    program, settings = write_reference(
        f"{name}: a definition of flashinfer-bench or SOL-ExecBench.",
        [*_computed(definition), *source],
        (arguments, [f"return {names['run']}({', '.join(arguments)})"]),
        _inputs(definition, chosen[0], names),
        _named_apart([_workload(definition, one) for one in chosen]),
    )
    return ForeignTask(
        name=name,
        program=program,
        settings={"workloads": settings},
        notes=tuple(notes),
    )


def _kinds(one: KernelWorkload) -> dict[str, tuple[str, bool]]:
    """Return of each input where it comes from, and whether it is a boolean."""
    return {name: (it.type, isinstance(it.value, bool)) for name, it in one.inputs.items()}


def _workload_file(path: Path, name: str) -> Path:
    places = [path.parent / "workload.jsonl", path.parent / "workloads.jsonl"]
    if Path(name).name == name:
        # In flashinfer's data set: definitions/KIND/NAME.json and workloads/KIND/NAME.jsonl.
        kind = path.absolute().parent
        data = kind.parent.parent / "workloads" / kind.name
        places += [path.parent / f"{name}.jsonl", data / f"{name}.jsonl"]
    found = next((one for one in places if one.is_file()), None)
    if found is None:
        raise TaskError(
            f"{path}: expected its workloads in workload.jsonl or {name}.jsonl beside it, found neither: put one there"
        )
    return found


def _workloads(file: Path, definition: KernelDefinition, notes: list[str]) -> list[KernelWorkload]:
    """Return the workloads that can be drawn; `notes` say why others cannot."""
    found = []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if not line.strip():
            continue
        values = read_json(file, line, f" line {number}")
        if isinstance(values, dict) and isinstance(values.get("workload"), dict):
            values = values["workload"]
        one = parsed(KernelWorkload, values, f"{file} line {number}")
        why = _why_not(definition, one)
        if why:
            notes.append(f"workload {one.uuid[:36]} is left out: {why}")
        else:
            found.append(one)
    return found


def _why_not(definition: KernelDefinition, one: KernelWorkload) -> str:
    """Say why a workload cannot be drawn, nothing where it can."""
    absent = [name for name in definition.inputs if name not in one.inputs]
    if absent:
        return f"it says nothing of input {absent[0]}"
    try:
        axes = _axes(definition, one.axes)
    except (ValueError, ArithmeticError, RecursionError, SyntaxError) as error:
        return f"its axes: {error}"
    faults = (
        _fault(definition, name, one.inputs[name], [axes[axis] for axis in spec.shape or ()])
        for name, spec in definition.inputs.items()
    )
    return next((f"input {fault}" for fault in faults if fault), "")


def _fault(definition: KernelDefinition, name: str, source: InputSource, extents: list[int]) -> str:
    """Say why an input cannot be drawn, nothing where it can."""
    spec = definition.inputs[name]
    drawable = spec.shape is not None and spec.dtype in (*FLOATS, "bool")
    checks = (
        (source.type == "safetensors", "lies in a safetensors file"),
        (
            source.type == "custom" and definition.custom_inputs_entrypoint is None,
            "is custom, and the definition has no custom_inputs_entrypoint",
        ),
        (
            source.type == "random" and not drawable,
            f"is random of {spec.dtype}, and which values are valid is not said",
        ),
        (
            source.type == "scalar" and (source.value is None or not math.isfinite(source.value)),
            "is a scalar without a finite value",
        ),
        (0 in extents, "is empty"),
    )
    return next((f"{name} {why}" for wrong, why in checks if wrong), "")


def _axes(definition: KernelDefinition, given: Mapping[str, int]) -> dict[str, int]:
    """Return the extent of every axis.

    Raises:
        ValueError: one is not given, or follows from nothing.
    """
    known: dict[str, int] = {}

    def extent(name: str, waiting: frozenset[str]) -> int:
        axis = definition.axes.get(name)
        if axis is None or name in waiting:
            raise ValueError(f"{name} is not given")
        if name not in known:
            if isinstance(axis, ConstantAxis):
                known[name] = axis.value
            elif isinstance(axis, VariableAxis):
                if name not in given:
                    raise ValueError(f"{name} is not given")
                known[name] = given[name]
            else:
                inner = waiting | {name}
                tree = ast.parse(axis.expression, mode="eval")
                known[name] = _whole(_value(tree.body, lambda other: extent(other, inner)), name)
        return known[name]

    return {name: extent(name, frozenset()) for name in definition.axes}


def _whole(value: float, name: str) -> int:
    if value != int(value) or not 0 <= value <= _MOST_AXIS:
        raise ValueError(f"{name} comes to {value}")
    return int(value)


def _value(node: ast.expr, extent: Callable[[str], int]) -> float:
    """Return the value of an expression of axes: sums, products, quotients, remainders and powers."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return extent(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        sign = -1 if isinstance(node.op, ast.USub) else 1
        return sign * _value(node.operand, extent)
    if isinstance(node, ast.BinOp):
        one, other = _value(node.left, extent), _value(node.right, extent)
        if isinstance(node.op, ast.Pow):
            if not 0 <= other <= 40 or abs(one) > _MOST_AXIS:
                raise ValueError("a power is too large")
            return float(one**other)
        if type(node.op) in _OPERATORS:
            return float(_OPERATORS[type(node.op)](one, other))
    raise ValueError("an expression is not read")


def _reference(definition: KernelDefinition, path: Path) -> tuple[list[str], dict[str, str]]:
    """Return the reference's statements, and what its functions are called in it.

    A function that bears a name which a program of this project needs for itself is called otherwise.
    """
    try:
        tree = ast.parse(definition.reference)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"{path}: reference: not Python: {error}") from error
    functions = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    wanted = [one for one in ("run", definition.custom_inputs_entrypoint) if one]
    for name in wanted:
        if name not in functions:
            raise TaskError(f"{path}: reference: expected a function {name}(), found none: add it")
    body = [
        one
        for one in tree.body
        if not (isinstance(one, ast.ImportFrom) and one.module == "__future__")
    ]
    taken = functions & set(_TAKEN)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in taken:
            node.name = f"_own_{node.name}"
        elif isinstance(node, ast.Name) and node.id in taken:
            node.id = f"_own_{node.id}"
    texts = [text for one in body if (text := ast.unparse(one)) != "import torch"]
    return texts, {name: f"_own_{name}" if name in taken else name for name in wanted}


def _computed(definition: KernelDefinition) -> list[str]:
    """Return the lines that compute the axes which no workload gives, each after those that it needs."""
    lines: dict[str, str] = {}

    def add(name: str) -> None:
        axis = definition.axes[name]
        if name in lines or isinstance(axis, VariableAxis):
            return
        if isinstance(axis, ConstantAxis):
            lines[name] = f"{_AXIS}{name} = {axis.value}"
            return
        tree = ast.parse(axis.expression, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                add(node.id)
                node.id = f"{_AXIS}{node.id}"
        lines[name] = f"{_AXIS}{name} = int({ast.unparse(tree)})"

    for name in definition.axes:
        add(name)
    return list(lines.values())


def _inputs(
    definition: KernelDefinition, one: KernelWorkload, names: Mapping[str, str]
) -> list[str]:
    """Return the lines that make the inputs from the constants of a workload."""
    scalars = [name for name, source in one.inputs.items() if source.type == "scalar"]
    if any(source.type == "custom" for source in one.inputs.values()):
        entry = names[definition.custom_inputs_entrypoint or ""]
        given = [f"{name!r}: {_AXIS}{name}" for name in definition.axes]
        given += [f"{name!r}: {_SCALAR}{name}" for name in scalars]
        return [
            f"made = {entry}({{{', '.join(given)}}}, torch.device('cpu'))",
            f"return [made[name] for name in {tuple(definition.inputs)!r}]",
        ]
    drawn = []
    for name, spec in definition.inputs.items():
        shape = f"[{', '.join(f'{_AXIS}{axis}' for axis in spec.shape or ())}]"
        if name in scalars:
            kind = "bool" if isinstance(one.inputs[name].value, bool) else ""
            drawn.append(f"{kind}({_SCALAR}{name})" if kind else f"{_SCALAR}{name}")
        elif spec.dtype == "bool":
            drawn.append(f"torch.randint(0, 2, {shape}).bool()")
        else:
            drawn.append(f"torch.randn({shape}, dtype=torch.{spec.dtype})")
    return ["return [", *(f"    {text}," for text in drawn), "]"]


def _workload(definition: KernelDefinition, one: KernelWorkload) -> ForeignWorkload:
    variable = [name for name, axis in definition.axes.items() if isinstance(axis, VariableAxis)]
    sizes: dict[str, Size] = {f"{_AXIS}{name}": one.axes[name] for name in variable}
    for name, source in one.inputs.items():
        if source.type == "scalar" and source.value is not None:
            value = source.value
            sizes[f"{_SCALAR}{name}"] = int(value) if isinstance(value, bool) else value
    told = ", ".join(f"{name}={value}" for name, value in one.axes.items())
    return ForeignWorkload(name=f"{one.uuid[:8]}: {told}"[:60].rstrip(": "), sizes=sizes)


def _named_apart(found: list[ForeignWorkload]) -> list[ForeignWorkload]:
    """Return the workloads with names that differ, as a task file needs them."""
    names = [one.name for one in found]
    return [
        replace(one, name=f"{number} {one.name}"[:60]) if names.count(one.name) > 1 else one
        for number, one in enumerate(found, 1)
    ]
