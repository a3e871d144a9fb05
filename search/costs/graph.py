"""The reference as a graph of ATen operators, in plain values (no torch)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Ref:
    """A use of a value by its name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor that enters the graph.

    Attributes:
        origin: where the forward finds it: positional input number for inputs, dotted attribute path
            for parameters and buffers; empty for a constant that is none's attribute.
        contiguous: its elements lie in memory in their order, without gaps.
        distinct: how many of its elements have a place of their own at least, where it repeats some.
    """

    name: str
    kind: Literal["input", "parameter", "buffer", "constant"]
    origin: str
    shape: tuple[int, ...]
    dtype: str  # "float32"
    data: tuple[float | int | bool, ...] | None = (
        None  # the elements of a small constant, flattened
    )
    contiguous: bool = True
    distinct: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One call of an ATen operator.

    Attributes:
        name: its result's name.
        target: overload packet and overload, e.g. ``conv2d.default``.
        args, kwargs: literals, `Ref`s and tuples of them.
        shape, dtype: of its (first) result.
        copies: its result is memory of its own, though operators of its name may return a view.
    """

    name: str
    target: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    shape: tuple[int, ...]
    dtype: str
    copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGraph:
    """What the reference's forward computes, operators in execution order.

    Attributes:
        single_output: the forward returns a tensor, not a tuple of one.
        checked: it also looks at values, and raises for some; that is left out.
    """

    values: tuple[Value, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[str, ...]
    single_output: bool
    checked: bool = False

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the value or operator result called `name`."""
        entries: tuple[Value | Operator, ...] = (*self.values, *self.operators)
        return next(entry.shape for entry in entries if entry.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the reference costs.

    Attributes:
        flops: floating-point operations of the reference, FMA counted as two.
        bytes: every input, parameter and output moved once.
        traffic: the same with every intermediate tensor written and read, as eager does.
        families: operator families present, most expensive first.
        functions: of its operators, those that take many instructions an element, such as exp.
        sure_flops, sure_bytes: what of `flops` and `bytes` no honest program can spare.
        short: numbers of two bytes occur, whose products are faster than float32's.
        short_products: there are products, and each is of such numbers.
        sure_weights: of `sure_bytes`, those of weights in floating point, as the reference keeps them.
    """

    flops: float
    bytes: float
    traffic: float
    families: tuple[str, ...]
    functions: tuple[str, ...] = ()
    sure_flops: float = 0.0
    sure_bytes: float = 0.0
    sure_weights: float = 0.0
    short: bool = False
    short_products: bool = False


def shapes_line(graph: OperatorGraph) -> str:
    """Return the shapes of inputs and outputs as people write them."""

    def texts(shapes: Iterable[tuple[int, ...]]) -> str:
        return ", ".join("x".join(map(str, shape)) for shape in shapes)

    inputs = (value.shape for value in graph.values if value.kind == "input")
    return f"{texts(inputs)} -> {texts(graph.shape(name) for name in graph.outputs)}"
