"""The operator graph in primitive nodes: maps, views, row reductions, and what stays opaque."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from search.codegen.expressions import (
    Expression,
    Operand,
    Reduction,
    costly,
    is_truth,
)
from search.costs.graph import Operator, OperatorGraph, Ref

Shape = tuple[int, ...]
SHORT = ("float16", "bfloat16")  # types of two bytes, which kernels compute in float32
INTEGERS = ("int64", "int32")  # of those, what kernels read


@dataclass(frozen=True, slots=True, kw_only=True)
class IrNode:
    """One primitive step; its elements are contiguous, and float32 in registers unless it is a mask.

    Attributes:
        expression: of a map, its element over those of the operands.
        reduction: of a reduction, what a row becomes.
        operands: names of nodes.
        dims: of a reduction, the reduced dimensions of its operand, kept with size one.
        operator: the operator of the graph that it belongs to.
        mask: the elements are truth values; such a node cannot leave a kernel.
        usable: a fused kernel can read it (float32, or two bytes).
        integer: its elements are integers; only an expression made for them reads it.
        dtype: of what is in memory.
    """

    name: str
    kind: Literal["value", "map", "view", "reduce", "opaque"]
    shape: Shape
    expression: Expression | None = None
    reduction: Reduction | None = None
    operands: tuple[str, ...] = ()
    dims: tuple[int, ...] = ()
    operator: str = ""
    mask: bool = False
    usable: bool = True
    integer: bool = False
    dtype: str = "float32"

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def heavy(self) -> bool:
        """Whether computing it twice costs more than keeping it."""
        return self.expression is not None and costly(self.expression)


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape that `shapes` broadcast to.

    Raises:
        ValueError: they do not.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {shapes} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


class Unsupported(Exception):
    """An operator, or its arguments, that no primitive node expresses."""


class IrBuilder:
    """Collects nodes while operators are lowered.

    Attributes:
        nodes: by name, in execution order.
        symbolic: kernels read sizes at run time, so no expression may contain one.
        effects: operators that are done for what they write, though nothing reads it.
        writes: some operator writes into its argument.
        dtypes: of values and operators' results, by name.
    """

    def __init__(self, graph: OperatorGraph, *, symbolic: bool = False) -> None:
        self.graph = graph
        self.symbolic = symbolic
        self.nodes: dict[str, IrNode] = {}
        self.effects: list[str] = []
        self.operators = {operator.name: operator for operator in graph.operators}
        self.dtypes = {value.name: value.dtype for value in graph.values}
        self.dtypes |= {operator.name: operator.dtype for operator in graph.operators}
        self._taken = {*self.operators, *(value.name for value in graph.values)}
        listed = (refs((operator.args, operator.kwargs)) for operator in graph.operators)
        self._read = {*graph.outputs, *(ref.name for found in listed for ref in found)}
        packets = (operator.target.split(".")[0] for operator in graph.operators)
        self.writes = any(writes(packet) for packet in packets)
        self._renamed: dict[str, str] = {}
        self._current = ""
        self._pending: list[IrNode] = []

    def begin(self, operator: Operator) -> None:
        """Start lowering `operator`."""
        self._current, self._pending = operator.name, []

    def commit(self, result: str) -> None:
        """Keep the nodes of the current operator; `result` is the node that it returns."""
        for node in self._pending:
            self.nodes[node.name] = node
        if result != self._current:
            self._renamed[self._current] = result

    def opaque(self, operator: Operator) -> None:
        """Keep `operator` whole."""
        self._pending = []
        names = tuple(self.resolve(ref.name) for ref in refs((operator.args, operator.kwargs)))
        self.nodes[operator.name] = IrNode(
            name=operator.name,
            kind="opaque",
            shape=operator.shape,
            operands=names,
            operator=operator.name,
            usable=operator.dtype in ("float32", "bool", *SHORT),
            mask=operator.dtype == "bool",
            dtype=operator.dtype,
        )

    def replace(self, old: str, new: str) -> None:
        """From here on `old` means `new`: an operator wrote into its argument."""
        before, after = self.resolve(old), self.resolve(new)
        if before != after:  # e.g. detach_, which changes nothing
            self._renamed[before] = after

    def resolve(self, name: str) -> str:
        """Return the node that stands for the value or operator result `name`."""
        while name in self._renamed:
            name = self._renamed[name]
        return name

    def get(self, name: str) -> IrNode:
        """Return the node called `name`, kept or pending."""
        name = self.resolve(name)
        for node in self._pending:
            if node.name == name:
                return node
        return self.nodes[name]

    def only_first(self, operator: Operator) -> bool:
        """Say whether only the first of several results of `operator` is used."""
        users = [
            other
            for other in self.graph.operators
            if Ref(operator.name) in refs((other.args, other.kwargs))
        ]
        items = [user for user in users if user.name in self._read]
        return all(user.target == "getitem" and user.args[1] == 0 for user in items)

    def operand(self, argument: Any, *, integer: bool = False) -> IrNode:
        """Return the node that `argument` refers to, one that a kernel can read.

        Raises:
            Unsupported: it is no reference, or neither float32 nor, where asked for, of integers.
        """
        if not isinstance(argument, Ref):
            raise Unsupported
        node = self.get(argument.name)
        if not node.usable or node.integer != integer:
            raise Unsupported
        return node

    def map(
        self, make: Callable[..., Expression], *operands: IrNode, dtype: str = "float32"
    ) -> IrNode:
        """Add what `make` returns for the elements of `operands`, broadcast; `dtype` says whether they are integers."""
        expression = make(*map(Operand, range(len(operands))))
        return self._add(
            "map",
            broadcast(*(node.shape for node in operands)),
            expression=expression,
            operands=tuple(node.name for node in operands),
            mask=is_truth(expression, [node.mask for node in operands]),
            **_integers(dtype),
        )

    def made(self, expression: Expression, shape: Shape, dtype: str = "float32") -> IrNode:
        """Add `expression`, which reads no operand: where an element stands says all of it."""
        mask = is_truth(expression, ())
        return self._add("map", shape, expression=expression, mask=mask, **_integers(dtype))

    def is_made(self, node: IrNode) -> bool:
        """Say whether no element of `node` comes from memory."""
        if node.kind not in ("map", "view"):
            return False
        return all(self.is_made(self.get(name)) for name in node.operands)

    def view(self, source: IrNode, shape: Shape) -> IrNode:
        """Add `source` under another shape with the same elements in the same order."""
        if source.shape == shape:
            return source
        kept = {"mask": source.mask, "integer": source.integer, "dtype": source.dtype}
        return self._add("view", shape, operands=(source.name,), **kept)

    def stored(self, result: IrNode, dtype: str) -> IrNode:
        """Return `result` as a node whose elements are of a float `dtype` where they are in memory."""
        if result.mask or result.dtype == dtype:
            return result
        if result.kind == "view" or result not in self._pending:
            result = self.map(lambda x: x, result)
        changed = replace(result, dtype=dtype)
        self._pending[self._pending.index(result)] = changed
        return changed

    def expand(self, source: IrNode, shape: Shape) -> IrNode:
        """Add `source` broadcast to `shape`."""
        if source.shape == shape:
            return source
        given = {"expression": Operand(0), "operands": (source.name,), "mask": source.mask}
        return self._add("map", shape, **given)

    def reduce(self, reduction: Reduction, source: IrNode, dims: tuple[int, ...]) -> IrNode:
        """Add the reduction of `source` over `dims`, which stay with size one.

        Raises:
            Unsupported: the dimensions are not neighbours.
        """
        if source.mask:
            raise Unsupported
        wide = [dim for dim in dims if source.shape[dim] != 1]
        between = range(min(wide), max(wide)) if wide else ()
        if any(source.shape[dim] != 1 and dim not in dims for dim in between):
            raise Unsupported
        shape = tuple(1 if dim in dims else size for dim, size in enumerate(source.shape))
        given = {"reduction": reduction, "operands": (source.name,), "dims": dims}
        return self._add("reduce", shape, **given)

    def _add(self, kind: Any, shape: Shape, **fields: Any) -> IrNode:
        name = f"{self._current}_{len(self._pending)}"
        while name in self._taken:  # the third `add` of a graph is called add_2
            name += "_"
        node = IrNode(name=name, kind=kind, shape=shape, operator=self._current, **fields)
        self._pending.append(node)
        return node


def _integers(dtype: str) -> dict[str, Any]:
    return {"integer": True, "dtype": dtype} if dtype in INTEGERS else {}


def writes(packet: str) -> bool:
    """Say whether an operator of that name writes into its argument."""
    return packet.endswith("_") and not packet.endswith("__")  # `__or__` is Python's `|`


def refs(arguments: Any) -> tuple[Ref, ...]:
    """Return the references in `arguments`, nested tuples included, in order."""
    if isinstance(arguments, Ref):
        return (arguments,)
    if isinstance(arguments, (tuple, list)):
        return tuple(ref for argument in arguments for ref in refs(argument))
    return ()
