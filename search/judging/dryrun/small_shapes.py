"""Small variants of a task: the same program on shapes that an interpreter can work through."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from kb.errors import TaskError
from search.graph import hash_source
from search.judged import JudgedTask
from search.reference import Problem, load_problem

_FUNCTIONS = ("get_inputs", "get_init_inputs")
# Elements of inputs, parameters and outputs together; operations of matrix products and convolutions.
_SMALL = (1 << 15, 1 << 24)
_BEARABLE = (1 << 22, 1 << 26)  # for a candidate that takes no other shapes
_KEPT = (16, 4)  # constants up to here may say what a program does, not how much of it
_HALVINGS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A task on smaller shapes.

    Attributes:
        changed: the constants that were made smaller, with what they became; empty where the task
            itself is small enough.
    """

    problem: Problem
    changed: Mapping[int, int]


def variants(problem: Problem) -> Iterator[Variant]:
    """Yield variants of a task that are small enough to be interpreted, the largest first.

    Sizes are the integer constants of the reference's module and of its input functions. Equal
    constants stay equal, powers of two stay such, and a size that fills no tile fills none after.
    """
    task = problem.task
    tree = ast.parse(task.source)
    heads = _tried(task, task.source).heads
    constants = sorted(_constants(tree) - heads)
    if _fits(task, task.source, _SMALL):
        yield Variant(problem=problem, changed={})
    tried: set[tuple[int, ...]] = set()
    # Where many sizes must stay apart none becomes small: the last may be equal.
    for distinct, kept, divided in product((True, False), _KEPT, (True, False)):
        for halvings in range(1, _HALVINGS):
            changed = plan(constants, kept, 1 << halvings, divided=divided, distinct=distinct)
            key = tuple(changed.get(value, value) for value in constants)
            if not changed or key in tried:
                continue
            tried.add(key)
            source = _rewritten(tree, changed)
            if not _fits(task, source, _SMALL, heads):
                continue
            small = replace(
                task, name=f"{task.name} (small)", source=source, identity=hash_source(source)
            )
            try:
                yield Variant(problem=load_problem(small, problem.seed), changed=changed)
            except TaskError:
                continue  # these sizes do not go together


def own_shapes(problem: Problem) -> Variant | None:
    """Return the task as it is, None where an interpreter would take too long."""
    fits = _fits(problem.task, problem.task.source, _BEARABLE)
    return Variant(problem=problem, changed={}) if fits else None


def plan(
    constants: list[int], kept: int, factor: int, *, divided: bool = True, distinct: bool = True
) -> dict[int, int]:
    """Return what each constant above `kept` becomes when sizes are divided by about `factor`.

    Args:
        divided: a multiple of a small constant (groups, heads) stays a multiple of it, and what is no
            power of two becomes none.
        distinct: no size becomes what another is, where that can be done.
    """
    changed: dict[int, int] = {}
    taken = {value for value in constants if value <= kept}
    small = [value for value in constants if 1 < value <= kept] if divided else []
    for value in constants:
        if value <= kept:
            continue
        multiple = math.lcm(*(s for s in small if value % s == 0), 1)
        target = max(value // factor, min(value, kept) // 2, 1)
        sizes = list(_like(value, target, multiple, alike=divided))
        free = (size for size in sizes if not distinct or size not in taken)
        made = next(free, sizes[0] if sizes else value)
        if made < value:
            changed[value] = made
            taken.add(made)
    return changed


def _like(value: int, target: int, multiple: int, *, alike: bool) -> Iterator[int]:
    """Yield sizes from `target` on: powers of two, or such as fill a tile of 16, where `value` does."""
    if _power(value):
        size = max(1 << (target.bit_length() - 1), multiple if _power(multiple) else 1)
        while size < value:
            yield size
            size *= 2
        return
    step = math.lcm(multiple, 16) if value % 16 == 0 else multiple
    for size in (*range(target, 2, -1), *range(target + 1, min(value, 8 * target))):
        tiled = (size % 16 == 0) == (value % 16 == 0)
        if size % step == 0 and tiled and size % 2 == value % 2 and not (alike and _power(size)):
            yield size


def _power(value: int) -> bool:
    return value & (value - 1) == 0


def specialised(source: str, changed: Mapping[int, int]) -> int | None:
    """Return a size of the task that a candidate has written into it, None where it has none."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in changed:
            return node.value
    return None


def _sites(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the integer constants that say how large inputs are.

    They stand in the input functions, or under a name of the module that only those use: what the
    model reads as well may say what it computes, which an answer has written into it.
    """
    makers = [s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name in _FUNCTIONS]
    sizes = {s: _bound(s) for s in tree.body if isinstance(s, (ast.Assign, ast.AnnAssign))}
    others = [s for s in tree.body if s not in makers and s not in sizes]
    used = {name for maker in makers for name in _names(maker)}
    foreign = {name for other in others for name in _names(other)}
    for statement in reversed(list(sizes)):
        # What a size is computed from is a size.
        if sizes[statement] & used and statement.value is not None:
            used |= _names(statement.value)
    chosen = [s.value for s, bound in sizes.items() if bound & used and not bound & foreign]
    for root in (*chosen, *(part for maker in makers for part in maker.body)):
        for node in ast.walk(root) if root is not None else ():
            if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
                yield node


def _bound(statement: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return {name for target in targets for name in _names(target)}


def _names(root: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(root) if isinstance(node, ast.Name)}


def _constants(tree: ast.Module) -> set[int]:
    return {int(node.value) for node in _sites(tree)}  # type: ignore[arg-type]  # `_sites` yields integers


def _rewritten(tree: ast.Module, changed: Mapping[int, int]) -> str:
    before = {node: int(node.value) for node in _sites(tree)}  # type: ignore[arg-type]  # integers
    try:
        for node, value in before.items():
            node.value = changed.get(value, value)
        return ast.unparse(tree)
    finally:
        for node, value in before.items():
            node.value = value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What a program does on tensors that have shapes and no memory.

    Attributes:
        elements: of inputs, parameters and outputs together; infinite where it does not run.
        operations: of matrix products and convolutions.
        heads: sizes that attentions scale their scores by. A kernel may hold the scale as a number.
    """

    elements: float = math.inf
    operations: int = 0
    heads: frozenset[int] = frozenset()


class _Heads(TorchFunctionMode):
    """Notes by which sizes attentions scale their scores."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is scaled_dot_product_attention and given.get("scale") is None:
            query = args[0] if args else given["query"]
            self.found.add(int(query.shape[-1]))
        return func(*args, **given)


def _fits(
    task: JudgedTask, source: str, most: tuple[int, int], heads: frozenset[int] | None = None
) -> bool:
    """Say whether a variant runs, and has at most so many elements and operations, and attentions with such heads."""
    tried = _tried(task, source, most[0])
    same = heads is None or tried.heads == heads
    return same and tried.elements <= most[0] and tried.operations <= most[1]


def _tried(task: JudgedTask, source: str, most: float = math.inf) -> _Trial:
    """Return what becomes of a program; one with more than `most` elements of inputs is not run."""
    from torch.utils.flop_counter import FlopCounterMode

    space: dict[str, Any] = {"__name__": "variant"}
    seen = _Heads()
    try:
        with torch.device("meta"), torch.no_grad(), torch.random.fork_rng(devices=[]):
            exec(compile(source, str(task.reference), "exec"), space)  # noqa: S102 - the user's own program
            init = space.get("get_init_inputs", list)()
            inputs = list(space["get_inputs"]())
            elements = _elements(inputs)
            if elements > most:
                return _Trial()
            model = space["Model"](*init)
            elements += _elements(model.state_dict().values())
            with FlopCounterMode(display=False) as counter, seen:
                elements += _elements(_listed(_called(model, inputs)))
    except Exception:  # noqa: BLE001 - the user's program on sizes that it may not take
        return _Trial()
    operations = counter.get_total_flops()
    return _Trial(elements=elements, operations=operations, heads=frozenset(seen.found))


def _elements(values: Any) -> int:
    return sum(value.numel() for value in values if isinstance(value, torch.Tensor))


def _called(model: Any, inputs: list[Any]) -> Any:
    try:
        return model(*inputs)
    except NotImplementedError:
        return ()  # its shapes depend on values: what it takes has to do for its size


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]
