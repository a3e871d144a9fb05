"""The least that a reference asks of any program: what arithmetic and which bytes nobody can spare.

A bound that an honest kernel beats would call it a cheat. So what algebra, structure or laziness may
avoid counts for nothing here: a product with a diagonal, masked or prepared operand, products one of
another (they associate), what a sum or a slice drops, rows that are looked up or ignored, the other
elements of a matrix whose diagonal is read, what no window touches, what is multiplied by zero.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from search.costs.demand import Demand, places_of
from search.costs.graph import Operator, OperatorGraph, Ref, Value
from search.costs.needless import used
from search.costs.trace import VIEWS, family, flops_of, nbytes, operands, operator_name
from search.costs.windows import WindowUse, window_use

_CUTS = frozenset(
    {"slice", "select", "narrow", "chunk", "split", "split_with_sizes", "unbind", "getitem"}
)
_PIECES = frozenset({"chunk", "split", "split_with_sizes", "unbind"})  # results that are tuples
_SPREADS = frozenset({"expand", "expand_as", "broadcast_to"})
# Pointwise by form, but what they are given may count for nothing.
_CHOOSES = frozenset({"where", "masked_fill", "fill", "zero"})
_KEEPS = frozenset(
    {"cat", "stack", "repeat", "repeat_interleave", "roll", "flip", "pad", "constant_pad_nd"}
)
# Buffers of these hold packed weights; one of floating point may be a mask, or a table that can be computed.
_WORDS = frozenset({"int8", "uint8", "int16", "int32", "int64", "uint16", "uint32"})
_LINEAR = frozenset(
    {"add", "sub", "rsub", "neg", "div", "true_divide", "clone", "alias", "positive", "lerp"}
)
_PRODUCTS = frozenset({"matmul", "convolution", "attention"})
_WHOLE_ROWS = frozenset({"reduction", "normalization", "softmax", "scan", "loss", "sort"})
_BENT = frozenset({"layer_norm", "native_layer_norm", "rms_norm", "group_norm", "instance_norm"})
_FILLED = re.compile(r"_like$|^new_|^(full|ones|zeros|fill|zero)$")
_EARLY = frozenset({"any", "all", "nll_loss", "nll_loss_nd"})  # may be known before all is read


@dataclass(slots=True)
class _Known:
    """What is known of a value before its uses are looked at.

    Attributes:
        fresh: depends on an input, so that it cannot be prepared once.
        dense: nothing is known of its elements: no zeros, no repetition, no preparation.
        holes: may hold zeros, or what becomes zeros, in places that are known beforehand.
        linear: follows from a product by linear steps alone.
        spread: repeats a smaller tensor.
    """

    fresh: bool
    dense: bool
    holes: bool
    linear: bool = False
    spread: bool = False


def sure(graph: OperatorGraph) -> tuple[float, float, float]:
    """Return floating-point operations and bytes that no program for `graph` can spare.

    The third is what of the bytes is weights, which a constructor may keep in fewer.
    """
    return _Sure(graph).count()


class _Sure:
    def __init__(self, graph: OperatorGraph) -> None:
        self._graph = graph
        self._values = {value.name: value for value in graph.values}
        self._known: dict[str, _Known] = {}
        self._sizes: dict[str, int] = {}
        self._of = {operator.name: operator for operator in graph.operators}
        self._read: dict[str, Demand] = defaultdict(Demand)
        self._computed: dict[str, Demand] = defaultdict(Demand)
        self._seen: set[str] = set()
        self._calls: dict[object, str] = {}
        self._first: dict[str, str] = {}
        self._overwritten: set[str] = set()
        self._flops = 0.0

    def count(self) -> tuple[float, float, float]:
        for value in self._values.values():
            self._sizes[value.name] = math.prod(value.shape)
            # Whole numbers may be a mask as truth values are.
            given = value.kind in ("input", "parameter") and value.dtype not in (*_WORDS, "bool")
            self._known[value.name] = _Known(
                fresh=value.kind == "input", dense=given, holes=not given
            )
        for operator in self._graph.operators:
            self._sizes[operator.name] = self._size(operator)
            self._known[operator.name] = self._know(operator)
            self._overwritten |= self._overwrites(operator)
            call = (operator.target, self._named(operator.args), self._named(operator.kwargs))
            self._first[operator.name] = self._calls.setdefault(call, operator.name)
        for name in self._graph.outputs:
            if self._base(name) in self._of:  # else it is a view of what was given
                self._read[name].whole = self._computed[name].whole = 1.0
        for operator in reversed(self._graph.operators):
            self._ask(operator)
        read = {
            name: self._read[name].share * nbytes(value) * _distinct(value)
            for name, value in self._values.items()
        }
        weights = (
            read[name]
            for name, value in self._values.items()
            if value.kind != "input" and value.dtype not in (*_WORDS, "bool")
        )
        written = sum(map(self._written, set(self._graph.outputs)))
        return self._flops, sum(read.values()) + written, sum(weights)

    def _named(self, arg: Any) -> Any:
        """Return an argument with each value that was computed before under its first name."""
        if isinstance(arg, Ref):
            return Ref(self._first.get(arg.name, arg.name))
        return tuple(map(self._named, arg)) if isinstance(arg, tuple) else arg

    def _size(self, operator: Operator) -> int:
        if operator_name(operator) in _PIECES:
            return self._sizes.get(operands(operator)[0], 0)
        return math.prod(operator.shape)

    def _know(self, operator: Operator) -> _Known:
        name, kind, refs = operator_name(operator), family(operator), used(operator)
        given = [self._known[ref] for ref in refs]
        size = self._sizes[operator.name]
        full = [self._known[ref] for ref in refs if self._sizes[ref] >= size]
        fresh = any(known.fresh for known in given)
        dense = fresh and bool(full) and all(known.dense for known in given)
        linear = any(known.linear for known in given)
        holes = not given or any(known.holes for known in given)
        spread = bool(given) and all(known.spread for known in full)
        if kind in _PRODUCTS:
            holes = all(known.holes for known in given)
            return _Known(
                fresh=fresh, dense=all(known.dense for known in given), holes=holes, linear=True
            )
        if name in VIEWS and given:
            grown = name in _SPREADS and size > self._sizes[refs[0]]
            first = given[0]
            return replace(first, dense=first.dense and not grown, spread=first.spread or grown)
        if kind in _WHOLE_ROWS:
            straight = kind != "softmax" and name not in _BENT
            return _Known(fresh=fresh, dense=dense, holes=holes, linear=linear and straight)
        if not _pointwise(operator) or name in _CHOOSES:
            return _Known(
                fresh=fresh, dense=False, holes=name not in _KEEPS or holes, linear=linear
            )
        if name == "mul":
            both = len(full) == 2 and all(known.dense and known.fresh for known in full)
            straight = not both
        else:
            straight = name in _LINEAR
        holes = holes or operator.dtype == "bool"
        return _Known(
            fresh=fresh, dense=dense, holes=holes, linear=linear and straight, spread=spread
        )

    def _overwrites(self, operator: Operator) -> set[str]:
        """Return the operator whose result it writes into, other than element by element."""
        given, packet = operands(operator), operator.target.split(".")[0]
        if not given or not packet.endswith("_") or packet.endswith("__"):
            return set()
        into = self._of.get(given[0])
        part = into is not None and operator_name(into) in VIEWS
        chosen = not _pointwise(operator) or operator_name(operator) in _CHOOSES
        masked = any(self._known[ref].holes and self._sizes[ref] > 1 for ref in given[1:])
        return {self._base(given[0])} if part or chosen or masked else set()

    def _ask(self, operator: Operator) -> None:
        """Pass on to its operands what is asked of an operator's result."""
        read, computed = self._read[operator.name].share, self._computed[operator.name].share
        name, given = operator_name(operator), used(operator)
        if not (read or computed) or not given or operator.name in self._overwritten:
            return
        if name in _CUTS and name not in _PIECES:
            self._ask_cut(operator, read, computed)
        elif name in VIEWS:
            self._pass(given[:1], read, computed)
        elif not self._known[operator.name].fresh:
            self._ask_prepared(operator, read)
        elif family(operator) in _PRODUCTS:
            self._ask_product(operator, read, computed)
        else:
            self._ask_other(operator, read, computed)

    def _ask_cut(self, operator: Operator, read: float, computed: float) -> None:
        whole = operands(operator)[0]
        source = self._of.get(whole)
        several = source is not None and operator_name(source) not in _PIECES
        if operator_name(operator) == "getitem" and several:  # one of an operator's results
            return self._pass([whole], read, computed)
        shape, dim = self._graph.shape(whole), operator.args[1]
        asked = ((self._read[whole], read), (self._computed[whole], computed))
        if source is not None and operator_name(source) in _PIECES:
            part = self._sizes[operator.name] / max(self._sizes[whole], 1)
            for demand, share in asked:
                demand.pieces[dim] = max(demand.pieces.get(dim, 0.0), share * part)
        elif isinstance(dim, int) and (places := places_of(operator, shape[dim])) is not None:
            for demand, share in asked:
                demand.cut(dim % len(shape), shape[dim], places, share)
        return None

    def _ask_other(self, operator: Operator, read: float, computed: float) -> None:
        name, kind, given = operator_name(operator), family(operator), used(operator)
        if kind in _WHOLE_ROWS:
            if name not in _EARLY and not self._skips_rows(operator):
                self._pass(given, read, 0.0)
        elif kind == "pooling":
            covered = window_use(operator, self._graph).read
            self._pass(given[:1], read * covered, computed * covered if "max" in name else 0.0)
        elif name in _KEEPS and not _crops(operator):
            kept = [ref for ref in given if self._sizes[ref] <= self._sizes[operator.name]]
            self._pass(kept, float(read == 1), float(computed == 1))
        elif _pointwise(operator) and name not in _CHOOSES:
            # The sum of products of one operand is a product with a sum: one of them is sure.
            sums = [ref for ref in given if name in _LINEAR and self._known[ref].linear]
            for ref in given:
                if not any(other != ref and self._masks(other, name) for other in given):
                    self._pass([ref], read, 0.0 if ref in sums[1:] else computed)

    def _masks(self, name: str, within: str) -> bool:
        """Tell whether a value may hide the other operand: zeros, or what is added before an exp."""
        known = self._known[name]
        return known.holes and self._sizes[name] > 1 and (within not in _LINEAR or not known.fresh)

    def _ask_prepared(self, operator: Operator, read: float) -> None:
        """Ask for what was made of weights alone: all of them, or, if that is less, the result."""
        leaves, ahead = set(), [operator.name]
        while ahead:
            name = ahead.pop()
            if name in self._of:
                ahead += operands(self._of[name])
            elif self._values[name].kind == "parameter" or self._values[name].dtype in _WORDS:
                leaves.add(name)
        total = sum(nbytes(self._values[name]) for name in leaves)
        if total:
            self._pass(list(leaves), read * min(1.0, nbytes(operator) / total), 0.0)

    def _ask_product(self, operator: Operator, read: float, computed: float) -> None:
        given = used(operator)
        factors = [ref for ref in _factors(operator) if ref in given]
        if family(operator) == "attention" and _masked(operator):
            return self._pass(given[:1], read, 0.0)
        kernel = window_use(operator, self._graph) if _slides(operator) else WindowUse()
        for at, ref in enumerate(factors):
            part = kernel.read if at == 0 else kernel.taps if at == 1 else 1.0
            if not any(self._known[other].holes for other in factors[:at] + factors[at + 1 :]):
                self._pass([ref], read * part * _diagonal(operator, at, self._graph), 0.0)
        self._pass([ref for ref in given if ref not in factors], read, 0.0)
        first = self._first[operator.name]
        spared = any(self._known[ref].linear or not self._known[ref].dense for ref in factors)
        if spared or not factors or not _contracts(operator) or first in self._seen:
            return None
        self._seen.add(first)
        flops = flops_of(operator, self._graph)
        if _slides(operator):
            # With transforms of large tiles a window of any width takes one product for each result.
            flops *= kernel.pairs / max(
                kernel.taps * math.prod(self._graph.shape(factors[1])[2:]), 1
            )
        elif self._base(factors[0]) == self._base(factors[1]):
            flops /= 2  # symmetric
        self._flops += computed * flops
        return self._pass(factors, 0.0, computed)

    def _skips_rows(self, operator: Operator) -> bool:
        """Tell whether a loss may leave out rows, those of the class that is ignored."""
        target = operator.args[1] if operator_name(operator) == "cross_entropy_loss" else None
        return isinstance(target, Ref) and self._dtype(target.name) == "int64"

    def _dtype(self, name: str) -> str:
        return (self._of.get(name) or self._values[name]).dtype

    def _base(self, name: str) -> str:
        """Return the value that `name` is a view of, by its first name."""
        name = self._first.get(name, name)
        given = operands(self._of[name]) if name in self._of else []
        return self._base(given[0]) if given and operator_name(self._of[name]) in VIEWS else name

    def _pass(self, names: list[str], read: float, computed: float) -> None:
        for name in names:
            self._read[name].whole = max(self._read[name].whole, read)
            self._computed[name].whole = max(self._computed[name].whole, computed)

    def _written(self, name: str) -> float:
        """Return bytes of an output that have to be written: none of a view, or of what repeats."""
        base = self._of.get(self._base(name))
        known = self._known[name]
        if base is None or known.spread or not known.fresh or _FILLED.search(operator_name(base)):
            return 0.0
        return float(min(nbytes(self._of[name]), nbytes(base)))


@cache
def _tagged(target: str) -> bool:
    packet, _, overload = target.partition(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    return torch.Tag.pointwise in getattr(found, "tags", ())


def _pointwise(operator: Operator) -> bool:
    return _tagged(operator.target)


def _distinct(value: Value) -> float:
    """Return the share of a value's elements that have a place of their own."""
    count = math.prod(value.shape)
    return 1.0 if value.distinct is None else value.distinct / max(count, 1)


def _crops(operator: Operator) -> bool:
    """Tell whether a padding takes elements away, or a repetition may leave some out."""
    name, rest = operator_name(operator), operator.args[1:2]
    sizes = rest[0] if "pad" in name and rest and isinstance(rest[0], tuple) else ()
    chosen = name == "repeat_interleave" and any(isinstance(arg, Ref) for arg in rest)
    return chosen or any(not isinstance(size, int) or size < 0 for size in sizes)


def _slides(operator: Operator) -> bool:
    return family(operator) == "convolution"


def _factors(operator: Operator) -> list[str]:
    """Return what a product multiplies, without what it adds."""
    name, count = operator_name(operator), 3 if family(operator) == "attention" else 2
    first, last = {
        "addmm": (1, 3),
        "baddbmm": (1, 3),
        "einsum": (1, 2),
        "bilinear": (0, 3),
        "chain_matmul": (0, 1),
        "linalg_multi_dot": (0, 1),
    }.get(name, (0, count))
    return operands(replace(operator, args=operator.args[first:last], kwargs=()))


def _diagonal(operator: Operator, at: int, graph: OperatorGraph) -> float:
    """Return the share of a factor that an einsum reads: of two equal letters it is the diagonal."""
    if operator_name(operator) != "einsum":
        return 1.0
    term = str(operator.args[0]).replace(" ", "").partition("->")[0].split(",")[at]
    front, _, back = term.partition("...")
    shape = graph.shape(_factors(operator)[at])
    sizes = (*zip(front, shape, strict=False), *zip(reversed(back), reversed(shape), strict=False))
    return math.prod(dict(sizes).values()) / max(math.prod(size for _, size in sizes), 1)


def _masked(operator: Operator) -> bool:
    """Tell whether an attention may leave keys out."""
    named = dict(operator.kwargs)
    mask = operator.args[3] if len(operator.args) > 3 else named.get("attn_mask")
    causal = operator.args[5] if len(operator.args) > 5 else named.get("is_causal")
    return mask is not None or bool(causal)


def _contracts(operator: Operator) -> bool:
    """Tell whether each index of an einsum is either kept or summed over two operands at once."""
    if operator_name(operator) != "einsum":
        return operator_name(operator) not in {"bilinear", "chain_matmul", "linalg_multi_dot"}
    equation = str(operator.args[0]).replace(" ", "")
    left, _, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != 2 or "." in equation or "->" not in equation:
        return False
    if any(len(set(term)) != len(term) for term in terms):
        return False
    return all(
        letter in right or all(letter in term for term in terms) for letter in set(left) - {","}
    )
