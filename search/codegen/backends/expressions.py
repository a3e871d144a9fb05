"""Triton functions for the primitive nodes of one kernel; a recipe's template writes the loops.

Every function takes the index of a row ``o`` and of an element in it ``c``, integer tensors of any
shapes that broadcast, and the masks ``live`` and ``inside`` of the same shapes, so that a template may
give a program a row, several rows, or a piece of one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from search.codegen.access_analysis import Walk, operands
from search.codegen.backends.cpp_to_triton import speak
from search.codegen.backends.symbolic_sizes import Extent
from search.codegen.ir import Node
from search.codegen.iteration_space import Access, Space, contiguous, operand_access

Pair = tuple[str, Access]
_INDEX = re.compile(r"INDEX(\d+)")


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


@dataclass
class Scope:
    """Statements of one function."""

    given: Mapping[Pair, str]
    row: bool = False
    lines: list[str] = field(default_factory=list)
    names: dict[Pair, str] = field(default_factory=dict)


class Emitter:
    """Writes expressions of one kernel's nodes.

    Args:
        inputs: nodes that the kernel reads, in the order of its pointers ``in0``, ``in1``, ...
        outputs: nodes that it writes, in the order of ``out0``, ``out1``, ...
    """

    def __init__(
        self,
        known: Mapping[str, Node],
        found: Walk,
        frame: Frame,
        extent: Extent,
        inputs: Sequence[str],
        outputs: Sequence[str] = (),
    ) -> None:
        self.known = known
        self.walk = found
        self.frame = frame
        self.extent = extent
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

    def value(self, scope: Scope, pair: Pair) -> str:
        """Return the name of the value of `pair`, adding what it needs to `scope`."""
        pair = self.base(pair)
        if pair in scope.given:
            return scope.given[pair]
        if pair not in scope.names:
            text = self._load(pair, scope) if pair[0] in self._read else self._compute(scope, pair)
            scope.names[pair] = f"t{len(scope.names)}"
            scope.lines.append(f"{scope.names[pair]} = {text}")
        return scope.names[pair]

    def _compute(self, scope: Scope, pair: Pair) -> str:
        node = self.known[pair[0]]
        form = speak(node.form)
        values = [self.value(scope, operand) for operand in self.below(pair)]
        return _INDEX.sub(self._index(node, pair[1], scope), form.format(*values))

    def _index(self, node: Node, access: Access, scope: Scope) -> Callable[[re.Match[str]], str]:
        """Return what replaces INDEX followed by a dimension: the position along it."""

        def text(found: re.Match[str]) -> str:
            dim = int(found.group(1))
            line = tuple(size if at == dim else 1 for at, size in enumerate(node.shape))
            place = operand_access(self.walk.space, access, node.shape, line)
            return f"({self.offset(place, row=scope.row) or 0})"

        return text

    def _load(self, pair: Pair, scope: Scope) -> str:
        name, access = pair
        offset = self.offset(access, row=scope.row)
        pointer = f"in{self._inputs[name]}" + (f" + {offset}" if offset else "")
        mask = self.mask(access, row=scope.row)
        return f"tl.load({pointer}{f', mask={mask}' if mask else ''})"

    def offset(self, access: Access, *, row: bool) -> str:
        """Return the offset of the element at ``o`` and, unless `row`, ``c``; may be empty."""
        parts = [self.extent.offset(access, self.frame.outer, "o")]
        if not row:
            parts.append(self.extent.offset(access, self.frame.inner, "c"))
        return " + ".join(part for part in parts if part)

    def mask(self, access: Access, *, row: bool) -> str:
        """Return the mask of what is read or written with `access`; may be empty."""
        parts = [] if self.frame.is_column(access) else ["live"]
        if not row and not self.frame.is_row(access):
            parts.append("inside")
        return " & ".join(parts)

    def store(self, pair: Pair, value: str, *, row: bool, stream: bool) -> str:
        """Return the statement that writes `value` to the result of `pair`."""
        name, access = pair
        # The place has the shape of the tile, whatever the shape of the value.
        place = f"out{self._outputs[name]} + {self.offset(access, row=row) or 'o * 0'}"
        mask = self.mask(access, row=row) or "live"
        hint = ', cache_modifier=".cs"' if stream else ""
        return f"tl.store({place}, {value}, mask={mask}{hint})"


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
