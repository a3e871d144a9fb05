"""Tasks of GPU MODE: ``task.yml`` with a ``reference.py`` that has ``generate_input`` and ``ref_kernel``."""

from __future__ import annotations

import ast
import keyword
import re
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb.errors import TaskError
from search.formats import (
    ForeignTask,
    ForeignWorkload,
    read_text,
    spread,
    write_reference,
)
from search.formats.merging import Merged, merge

_SUBMISSION = "@SUBMISSION@"
_REFERENCE = "reference"
_SIZE = "case_"  # begins the names of the constants of a case
Case = dict[str, int | float | bool | str]


class GpuModeFile(BaseModel):
    """One of a task's files."""

    model_config = ConfigDict(frozen=True)

    name: str
    source: str


class GpuModeTask(BaseModel):
    """What is used of a ``task.yml``; other keys say how its own server runs it."""

    model_config = ConfigDict(frozen=True)

    files: tuple[GpuModeFile, ...] = Field(min_length=1)
    lang: Literal["py", "cu"]
    description: str = ""
    tests: tuple[Case, ...] = ()
    benchmarks: tuple[Case, ...] = ()
    ranking_by: Literal["last", "mean", "geom"] = "last"
    multi_gpu: bool = False


def read_gpumode(path: Path, workloads: int) -> ForeignTask:
    """Read a ``task.yml``.

    Its benchmarks become workloads, and its tests workloads that are held out; where the last benchmark alone
    ranks (``ranking_by: last``), the others are held out, too. Seeds are the judge's, so that inputs stay secret.

    Raises:
        TaskError: it is not a task that can be judged here; one line says why.
    """
    task = _parse(path)
    merged = merge(_REFERENCE, _files(task, path), path)
    for name in ("generate_input", "ref_kernel"):
        if merged.function(name) is None:
            raise TaskError(
                f"{path}: expected a function {name}() in reference.py, found none: is it a task in Python?"
            )
    count = _inputs_of(merged, path)
    notes = _notes(task)
    kept = merged.reach(("generate_input", "ref_kernel"))
    if "cuda" in _literals(merged, merged.reach(("ref_kernel",))):
        notes.append(
            "ref_kernel names the device cuda, which is cpu now: on a GPU it may have to be mended"
        )
    _move(merged)
    arguments = [f"x{number}" for number in range(count or 1)]
    given = "x0" if count is None else f"({', '.join(arguments)},)"
    cases = _cases(task, workloads, notes)
    program, settings = write_reference(
        f"{_title(path)}: a task of GPU MODE.",
        merged.text(kept),
        (arguments, [f"return ref_kernel({given})"]),
        _inputs(cases[0][1], count),
        [_workload(*one) for one in cases],
    )
    return ForeignTask(
        name=_title(path), program=program, settings={"workloads": settings}, notes=tuple(notes)
    )


def takes_tuple(path: Path) -> bool:
    """Say whether a task's kernels are given a tuple, not a tensor alone.

    Raises:
        TaskError: it is no task that can be judged here.
    """
    merged = merge(_REFERENCE, _files(_parse(path), path), path)
    return _inputs_of(merged, path) is not None


def _parse(path: Path) -> GpuModeTask:
    try:
        loaded = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a day that is none
        raise TaskError(f"{path}: not YAML: {' '.join(str(error).split())[:200]}") from error
    try:
        task = GpuModeTask.model_validate(loaded)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the file"
        raise TaskError(f"{path}: {key}: {first['msg']}: is it a task.yml of GPU MODE?") from error
    if task.lang != "py":
        raise TaskError(
            f"{path}: expected lang: py, found {task.lang}: a reference in CUDA is not read"
        )
    if task.multi_gpu:
        raise TaskError(
            f"{path}: expected a task of one device, found multi_gpu: it cannot be judged"
        )
    for key in {key for case in (*task.tests, *task.benchmarks) for key in case}:
        if not key.isidentifier() or keyword.iskeyword(key):
            raise TaskError(
                f"{path}: expected arguments of generate_input, found {key!r}: rename it"
            )
    if not task.tests and not task.benchmarks:
        raise TaskError(f"{path}: expected tests or benchmarks, found none: add one")
    return task


def _files(task: GpuModeTask, path: Path) -> dict[str, str]:
    """Return the texts of the task's Python files by module; those of other problems stay unread."""
    found = {}
    root = path.absolute().parent.parent.resolve()
    for one in task.files:
        if one.source == _SUBMISSION or not one.name.endswith(".py"):
            continue
        file = (path.absolute().parent / one.source.replace("\0", "")).resolve()
        if not file.is_relative_to(root):
            raise TaskError(
                f"{path}: files: expected files beside the task or one folder up, found {one.source!r}: move it there"
            )
        found[Path(one.name).stem] = read_text(file)
    if _REFERENCE not in found:
        raise TaskError(
            f"{path}: files: expected a reference.py, found {', '.join(found) or 'none'}: add it to files"
        )
    return found


def _inputs_of(merged: Merged, path: Path) -> int | None:
    """Return how many values ``generate_input`` returns in a tuple, None where it returns a tensor alone.

    The type ``input_t`` tells it, or else the tuple that the function returns.
    """
    for statement in merged.module.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "input_t":
            call = statement.value
            keywords = call.keywords if isinstance(call, ast.Call) else []
            bound = next((one.value for one in keywords if one.arg == "bound"), None)
            if bound is not None and ast.unparse(bound) == "torch.Tensor":
                return None
            if isinstance(bound, ast.Subscript) and ast.unparse(bound.value) in ("tuple", "Tuple"):
                slices = bound.slice
                return len(slices.elts) if isinstance(slices, ast.Tuple) else 1
    function = merged.function("generate_input")
    if function is None:
        raise TaskError(f"{path}: expected a function generate_input() in reference.py, found none")
    returned = [one.value for one in ast.walk(function) if isinstance(one, ast.Return)]
    tuples = {len(one.elts) for one in returned if isinstance(one, ast.Tuple | ast.List)}
    if len(tuples) == 1 and len(returned) == 1:
        return tuples.pop()
    if returned and not tuples and all(isinstance(one, ast.Call) for one in returned):
        return None
    raise TaskError(
        f"{path}: expected input_t in task.py as TypeVar('input_t', bound=torch.Tensor or a tuple of types), or a "
        "tuple that generate_input returns, found neither: say how many inputs there are"
    )


def _cases(task: GpuModeTask, workloads: int, notes: list[str]) -> list[tuple[str, Case, bool]]:
    """Return name, arguments and whether it is held out of each workload, those that count first."""
    last = task.ranking_by == "last"
    timed = list(task.benchmarks or task.tests)
    wanted = timed[-1].keys()
    named = [
        (f"benchmark {at}", case, last and case is not timed[-1]) for at, case in enumerate(timed)
    ]
    named = [*(one for one in named if not one[2]), *(one for one in named if one[2])]
    tests = [
        (f"test {at}", case, True) for at, case in enumerate(task.tests if task.benchmarks else ())
    ]
    odd = [name for name, case, _ in (*named, *tests) if case.keys() != wanted]
    if odd:
        notes.append(f"{', '.join(odd)}: left out, for the others have other arguments")
    named, tests = ([one for one in each if one[1].keys() == wanted] for each in (named, tests))
    chosen = named[:1] if last else spread(named, workloads)
    rest = [*(named[1:] if last else []), *tests]
    taken = [*chosen, *(spread(rest, workloads - len(chosen)) if workloads > len(chosen) else [])]
    if len(taken) < len(named) + len(tests):
        notes.append(
            f"{len(taken)} of {len(named) + len(tests)} benchmarks and tests are workloads (--workloads takes more)"
        )
    return taken


def _notes(task: GpuModeTask) -> list[str]:
    notes = ["check_implementation is not asked: this project's judge and tolerances decide"]
    if task.ranking_by == "mean":
        notes.append("ranked by the mean of times there, by the geometric mean of speed-ups here")
    return notes


def _inputs(case: Case, count: int | None) -> list[str]:
    """Return the lines that make the inputs from the constants of a case."""
    arguments = [
        f"{key}=bool({_SIZE}{key})" if isinstance(value, bool) else f"{key}={_SIZE}{key}"
        for key, value in case.items()
        if key != "seed"
    ]
    if "seed" in case:
        # On the processor, for a dry run traces the program on tensors without values.
        arguments.append("seed=int(torch.randint(torch.iinfo(torch.int32).max, (), device='cpu'))")
    made = f"generate_input({', '.join(arguments)})"
    return [f"return [{made}]" if count is None else f"return list({made})"]


def _workload(name: str, case: Case, held_out: bool) -> ForeignWorkload:
    given = {key: value for key, value in case.items() if key != "seed"}
    told = ", ".join(f"{key}={value}" for key, value in given.items())
    return ForeignWorkload(
        name=f"{name}: {told}"[:60].rstrip(": "),
        sizes={
            f"{_SIZE}{key}": int(value) if isinstance(value, bool) else value
            for key, value in given.items()
        },
        held_out=held_out,
    )


def _literals(merged: Merged, names: frozenset[str]) -> set[str]:
    return {
        node.value.partition(":")[0]
        for statement in merged.text(names)
        for node in ast.walk(ast.parse(statement))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _move(merged: Merged) -> None:
    """Have tensors made on the processor: the judge moves them to where they are asked for."""
    for node in ast.walk(merged.module):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"cuda(:\d+)?", node.value)
        ):
            node.value = "cpu"
        if isinstance(node, ast.Attribute) and node.attr == "cuda" and _called(merged, node):
            node.attr = "cpu"


def _called(merged: Merged, attribute: ast.Attribute) -> bool:
    """Say whether an attribute is a method without arguments: ``x.cuda()``, which is no module."""
    return any(
        isinstance(node, ast.Call) and node.func is attribute and not node.args
        for node in ast.walk(merged.module)
    )


def _title(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", path.absolute().parent.name).strip("_")[:80] or "task"
