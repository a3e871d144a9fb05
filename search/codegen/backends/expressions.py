"""Statements that compute nodes of one kernel at given places, each value once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, Protocol, TypeVar

from search.codegen.access_analysis import Walk, operands
from search.codegen.backends.printers import Printer
from search.codegen.ir import IrNode
from search.codegen.iteration_space import Access, Misfit, Space, operand_access
from search.strides import contiguous

Pair = tuple[str, Access]
# Numbers that are float32 in registers, and the prelude's names of those of two bytes in memory.
FLOATS = {"float32": "float", "float16": "f16", "bfloat16": "b16"}
# What is not float32 in memory: its type in C++, and the prelude's function that makes lanes of it.
C_TYPES = {"bool": "bool", "int32": "int", "int64": "long long", **FLOATS}
_LANES = {"bool": "truths", "int32": "ints", "int64": "ints"}


def c_pointer(dtype: str, pointer: str, *, const: bool = True) -> str:
    """Return the C++ of a pointer to numbers of `dtype`, where it is one to float."""
    if dtype == "float32":
        return pointer
    return f"(({'const ' if const else ''}{FLOATS[dtype]}*){pointer})"


def c_lanes(dtype: str, pointer: str, place: str) -> str:
    """Return the C++ of a vector's lanes, integers or truth values that lie in memory."""
    read = f"((const {C_TYPES[dtype]}*){pointer})[{place}]"
    if dtype == "int64":
        read = f"nearest_int({read})"
    return f"{_LANES[dtype]}<V>([&](int l) {{ return {read}; }})"


class Loops(Protocol):
    """How a kernel's loops cover its space."""

    def is_row(self, access: Access) -> bool:
        """Return whether what is read so is the same all along a row."""
        ...


L = TypeVar("L", bound=Loops)


@dataclass
class StatementScope:
    """Statements of one function.

    Attributes:
        given: texts of what is known beforehand.
        row: the function is of a row: nothing in it depends on a position along the row.
        rounded: what must come out the same in several functions (see `Schedule.repeated`).
        lines: ``name = value``, in order.
    """

    given: Mapping[Pair, str]
    row: bool = False
    rounded: frozenset[Pair] = frozenset()
    lines: list[str] = field(default_factory=list)
    names: dict[Pair, str] = field(default_factory=dict)


class Emitter(Generic[L]):
    """Writes expressions of one kernel's nodes; each language has its own loads and printer.

    Args:
        inputs: nodes that the kernel reads, in their order.
        outputs: nodes that it writes, in their order.
    """

    printer: ClassVar[type[Printer]]
    held: ClassVar[Literal["floats", "anything"]] = "floats"  # what slots and registers hold

    def __init__(
        self,
        known: Mapping[str, IrNode],
        found: Walk,
        loops: L,
        inputs: Sequence[str],
        outputs: Sequence[str] = (),
    ) -> None:
        self.known = known
        self.walk = found
        self.loops = loops
        self._inputs = {name: at for at, name in enumerate(inputs)}
        self._outputs = {name: at for at, name in enumerate(outputs)}
        self._read = {name for name, _ in found.sources}

    def base(self, pair: Pair) -> Pair:
        """Return the pair that a view shows."""
        name, access = pair
        while self.known[name].kind == "view":
            name = self.known[name].operands[0]
        return name, access

    def reduces(self, pair: Pair) -> bool:
        """Whether this kernel computes the reduction; another's result is read like any operand."""
        return self.known[pair[0]].kind == "reduce" and pair[0] not in self._read

    def below(self, pair: Pair) -> tuple[Pair, ...]:
        """Return what `pair` is computed from in this kernel."""
        if pair[0] in self._read:
            return ()
        lower = operands(self.known, self.walk.space, self.known[pair[0]], pair[1])
        return tuple(self.base(entry) for entry in lower)

    def holds(self, pair: Pair) -> bool:
        """Whether the value of `pair` can be kept for later statements."""
        node = self.known[pair[0]]
        return not node.mask and (self.held == "anything" or not node.integer)

    def value(self, scope: StatementScope, pair: Pair) -> str:
        """Return the name of the value of `pair`, adding what it needs to `scope`."""
        pair = self.base(pair)
        if pair in scope.given:
            return scope.given[pair]
        if pair not in scope.names:
            text = self.load(pair, scope) if pair[0] in self._read else self._compute(scope, pair)
            if pair in scope.rounded:
                text = f"rounded<V>({text})"
            scope.names[pair] = f"t{len(scope.names)}"
            scope.lines.append(f"{scope.names[pair]} = {text}")
        return scope.names[pair]

    def _compute(self, scope: StatementScope, pair: Pair) -> str:
        node = self.known[pair[0]]
        assert node.expression is not None, node
        values = [self.value(scope, operand) for operand in self.below(pair)]

        def index(dim: int) -> str:
            line = tuple(size if at == dim else 1 for at, size in enumerate(node.shape))
            place = operand_access(self.walk.space, pair[1], node.shape, line)
            return self.position(place, scope)

        return self.printer(values, index).text(node.expression)

    def load(self, pair: Pair, scope: StatementScope) -> str:
        """Return the text that reads `pair` from memory."""
        raise NotImplementedError

    def position(self, access: Access, scope: StatementScope) -> str:  # noqa: ARG002 - where there are some
        """Return the text of the position that `access` counts.

        Raises:
            Misfit: the language's kernels have no positions.
        """
        raise Misfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """How ``o`` and ``c`` cover a space.

    Attributes:
        outer: dimensions that ``o`` runs over.
        inner: dimensions that ``c`` runs over.
    """

    space: Space
    outer: tuple[int, ...]
    inner: tuple[int, ...]

    def is_row(self, access: Access) -> bool:
        """Whether what is read so is the same all along a row."""
        return all(access[dim] == 0 for dim in self.inner)

    def is_column(self, access: Access) -> bool:
        """Whether what is read so is the same in all rows."""
        return all(access[dim] == 0 for dim in self.outer)


def frame_of_rows(space: Space) -> Frame:
    """Return the frame in which ``c`` runs along the reduction."""
    first, last = space.reduced
    dims = tuple(range(len(space.sizes)))
    return Frame(space=space, outer=dims[:first] + dims[last:], inner=dims[first:last])


def frame_of_plane(space: Space, borders: Sequence[int]) -> Frame:
    """Return the frame in which ``c`` runs over the dimensions between two suffix products."""
    high, low = (*borders, 1)[:2]
    steps = contiguous(space.sizes)
    inner = tuple(at for at, step in enumerate(steps) if low <= step < high)
    outer = tuple(at for at in range(len(steps)) if at not in inner)
    return Frame(space=space, outer=outer, inner=inner)
