"""Attention as one part: a product, what is elementwise behind it, a softmax of its rows, and the product with its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod

from search.codegen.expressions import (
    Binary,
    Const,
    Expression,
    FunctionCall,
    Operand,
    Select,
)
from search.codegen.ir import IrNode
from search.codegen.lower import LoweredProgram, packet
from search.codegen.segments import ATTENTION, Segment

_PRODUCTS = ("matmul", "mm", "bmm")
_APART = "apart:"
_FIRST, _SECOND = Operand(number=0), Operand(number=1)
_DIFFERENCE = Binary(sign="-", left=_FIRST, right=_SECOND)
_QUOTIENT = Binary(sign="/", left=_FIRST, right=_SECOND)
_PRODUCT = Binary(sign="*", left=_FIRST, right=_SECOND)
_NOTHING = Const(value=0.0)
_EMPTY = Binary(sign="==", left=_FIRST, right=Const(value=-inf))


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax:
    """The softmax of an attention's rows.

    Attributes:
        scores: the node that it is of.
        nodes: what computes it.
        empty: a row that is minus infinity throughout is zero, and not what no number is.
    """

    scores: str
    nodes: frozenset[str]
    empty: bool


def joined(
    program: LoweredProgram, parts: Sequence[Segment]
) -> list[tuple[Segment, tuple[Segment, ...]]]:
    """Return the attentions that `parts` can be joined to, each with the two products and the rows that it does."""
    by_output = {name: part for part in parts for name in part.outputs}
    found: list[tuple[Segment, tuple[Segment, ...]]] = []
    for last in parts:
        if last.pattern != "matmul" or last.dims["bias"] or not last.inputs:
            continue
        rows = by_output.get(program.base(last.inputs[0]))
        if rows is None or rows.pattern != "rows" or len(rows.outputs) != 1:
            continue
        for first in (by_output.get(program.base(name)) for name in rows.inputs):
            if first is not None and first.pattern == "matmul" and not first.dims["bias"]:
                whole = _join(program, first, rows, last)
                if whole is not None:
                    found.append((whole, (first, rows, last)))
    return found


def apart(whole: Segment) -> str:
    """Return the entry of a plan's library by which the parts of an attention stay apart."""
    return f"{_APART}{whole.anchor}"


def operators(library: Iterable[str]) -> list[str]:
    """Return what a plan's library has to do, without entries of `apart`."""
    return [name for name in library if not name.startswith(_APART)]


def replaced(
    parts: Sequence[Segment], whole: Segment, inside: Sequence[Segment]
) -> tuple[Segment, ...]:
    """Return `parts` with an attention in the place of those `inside` it."""
    # It stands where its last product stood: all that it reads is there by then.
    standing = [whole if part == inside[-1] else part for part in parts]
    return tuple(part for part in standing if part not in inside)


def softmax_of(program: LoweredProgram, result: str) -> Softmax | None:
    """Return the softmax over the last axis whose result is the node `result`, None where it is none."""
    nodes = program.nodes
    top, empty, around = _unmasked(nodes, result)
    exponential, total, more = _ratio(nodes, top)
    if exponential is None or total is None or nodes[total].operands != (exponential,):
        return None
    call, difference = nodes[exponential].expression, nodes[exponential].operands[0]
    exponentials = isinstance(call, FunctionCall) and call.function.name == "vexp"
    if not exponentials or nodes[difference].expression != _DIFFERENCE:
        return None
    scores, highest = nodes[difference].operands
    rows = (*nodes[scores].shape[:-1], 1)
    reduced = [
        (str(nodes[name].reduction), nodes[name].shape, nodes[name].operands)
        for name in (total, highest)
    ]
    if reduced != [("Sum", rows, (exponential,)), ("Max", rows, (scores,))]:
        return None
    if empty not in (None, scores):
        return None
    inside = {*around, top, exponential, total, *more, difference, highest}
    return Softmax(scores=scores, nodes=frozenset(inside), empty=empty is not None)


def scored(program: LoweredProgram, part: Segment) -> tuple[str, tuple[str, ...], str]:
    """Return an attention's first product, what is done to its elements, and what the softmax takes of that."""
    assert part.anchor is not None
    first, *others = part.nodes
    softmax = softmax_of(program, program.base(program.nodes[part.anchor].operands[0]))
    assert softmax is not None
    return first, tuple(name for name in others if name not in softmax.nodes), softmax.scores


def _unmasked(nodes: Mapping[str, IrNode], result: str) -> tuple[str, str | None, tuple[str, ...]]:
    """Return the shares behind `result`; where those of an empty row are zero, of what, and what sees to it."""
    chosen = nodes[result].expression
    if not isinstance(chosen, Select) or (chosen.chosen, chosen.other) != (_NOTHING, _SECOND):
        return result, None, ()
    unseen, shares = nodes[result].operands
    if nodes[unseen].expression != _EMPTY:
        return result, None, ()
    return shares, nodes[unseen].operands[0], (result, unseen)


def _ratio(
    nodes: Mapping[str, IrNode], name: str
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Return numerator and denominator of the node `name`, and what is between."""
    expression = nodes[name].expression
    if expression not in (_QUOTIENT, _PRODUCT):
        return None, None, ()
    one, inverse = nodes[name].operands
    if expression == _QUOTIENT:
        return one, inverse, ()
    if nodes[inverse].expression != Binary(sign="/", left=Const(value=1.0), right=_FIRST):
        return None, None, ()
    return one, nodes[inverse].operands[0], (inverse,)


def _join(program: LoweredProgram, first: Segment, rows: Segment, last: Segment) -> Segment | None:
    nodes = program.nodes
    assert first.anchor is not None
    assert last.anchor is not None
    if len(first.outputs) != 1 or first.anchor in program.outputs:
        return None
    scored, shares = first.outputs[0], rows.outputs[0]
    if {scored, shares} & {*program.outputs} or not _all_read(program, scored, rows.nodes):
        return None
    if not _all_read(program, shares, (last.anchor,)):
        return None
    kinds = [packet(program.operators[name].target) for name in (first.anchor, last.anchor)]
    softmax = softmax_of(program, shares)
    if softmax is None or not set(kinds) <= {*_PRODUCTS}:
        return None
    query, value, n = first.inputs[0], last.inputs[1], nodes[first.inputs[1]].shape[-1]
    key, turned = first.inputs[1], False
    if not program.symbolic:  # a kernel for a GPU reads by strides
        key, turned = _unturned(program, key)
    lead = {nodes[name].shape[:-2] for name in (query, key, value, first.anchor, last.anchor)}
    if len(lead) > 1 or nodes[softmax.scores].numel != nodes[first.anchor].numel:
        return None
    own = [name for name in (*first.nodes, *rows.nodes) if name not in softmax.nodes]
    others = [name for part in (first, rows, last) for name in part.inputs[_operands(part) :]]
    given = dict.fromkeys(name for name in others if name != scored)
    m, k = nodes[query].shape[-2:]
    sizes = {"batch": prod(nodes[query].shape[:-2]), "m": m, "n": n, "k": k}
    sizes |= {"v": nodes[value].shape[-1], "empty": int(softmax.empty), "turned": int(turned)}
    return Segment(
        id=f"{ATTENTION}:{last.id.split(':', 1)[1]}",
        pattern=ATTENTION,
        anchor=last.anchor,
        nodes=(first.anchor, *own, *sorted(softmax.nodes, key=list(nodes).index)),
        pool=None,
        post=last.nodes,
        inputs=(query, key, value, *given),
        outputs=last.outputs,
        dims={**sizes, "masked": int(_masked(program, own, softmax.scores))},
    )


def _unturned(program: LoweredProgram, key: str) -> tuple[str, bool]:
    """Return what the matrices of `key` are the transposes of, and whether there is such."""
    operator, last = program.operators.get(key), len(program.nodes[key].shape) - 1
    if operator is None or packet(operator.target) != "transpose":
        return key, False
    _, *axes = operator.args
    if {axis % (last + 1) for axis in axes} != {last - 1, last}:
        return key, False
    return program.nodes[key].operands[0], True


def _operands(part: Segment) -> int:
    return 2 if part.pattern == "matmul" else 0


def _all_read(program: LoweredProgram, name: str, readers: Sequence[str]) -> bool:
    """Say whether `name`, or a view of it, is read by `readers` alone."""
    pending, views = [name], {name}
    while pending:
        for user in program.users[pending.pop()]:
            if user in readers:
                continue
            if program.nodes[user].kind != "view" or user in program.outputs:
                return False
            views.add(user)
            pending.append(user)
    return True


def _masked(program: LoweredProgram, own: Sequence[str], scores: str) -> bool:
    """Say whether scores are scaled by constants, and then minus infinity where a mask says so: such need not be computed."""
    nodes, at = program.nodes, scores
    expression = nodes[at].expression
    if at not in own or not isinstance(expression, Select) or expression.condition != _FIRST:
        return False
    kept = {expression.chosen, expression.other} - {Const(value=-inf)}
    if kept != {_SECOND}:
        return False
    at = nodes[at].operands[1]
    while at in own:
        if nodes[at].kind != "view" and not _is_scaled(nodes[at].expression):
            return False
        at = nodes[at].operands[0]
    return True


def _is_scaled(expression: Expression | None) -> bool:
    if not isinstance(expression, Binary) or expression.sign not in "*/":
        return False
    return expression.left == _FIRST and isinstance(expression.right, Const)
