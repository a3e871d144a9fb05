"""Segments: what one kernel, or one call of the library, reads, computes and leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from search.codegen.lower import LoweredProgram
from search.codegen.operator_sizes import any_rank, operand_order

INNER = (
    "pool",
    "scan",
    "place",
    "select",
    "histogram",
    "pairs",
    "factor",
)  # anchors that may compute what they read on the way in
SEVERAL = ("select", "factor")  # whose operators may have several results
ATTENTION = "attention"
_OPERANDS_FIRST = ("conv", "ndconv", "matmul", "recurrence", "sample")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of the graph that is done at once.

    Attributes:
        id: stable name: the pattern and the node that it ends with.
        pattern: ``pointwise``, ``rows``, ``pool``, ``scan``, ``place``, ``select``, ``histogram``,
            ``pairs``, ``factor``, ``conv``, ``ndconv``, ``matmul``, ``recurrence``, ``sample``, ``attention`` or ``library``.
        anchor: the convolution, product, pooling, scan or library operator; of an attention its last product.
        nodes: primitive nodes that it computes; with an anchor, those after it (before it for
            ``pool`` and ``scan``). Of an attention the first is its first product.
        pool: the pooling operator that a convolution feeds.
        post: nodes after the pooling or the scan; of `SEVERAL` the results that are wanted.
        inputs: nodes that it reads, the anchor's operands first (views of them where sizes are read
            at run time).
        outputs: nodes that others read, or that the forward returns.
        dims: sizes for the recipe.
    """

    id: str
    pattern: str
    anchor: str | None
    nodes: tuple[str, ...]
    pool: str | None
    post: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dims: Mapping[str, int | str]

    @property
    def anchors(self) -> frozenset[str]:
        """The operators of it that the library may do instead."""
        first = self.nodes[:1] if self.pattern == ATTENTION else ()
        return frozenset(name for name in (self.anchor, *first) if name)

    @property
    def tail(self) -> tuple[str, ...]:
        """The nodes of `post` that are computed, not only named."""
        return () if self.pattern in SEVERAL else self.post


def seen_as(part: Segment, pattern: str) -> Segment | None:
    """Return `part` as the recipes of a pattern take it, None where they cannot.

    A convolution of planes is also one of any rank.
    """
    if pattern == part.pattern:
        return part
    if (part.pattern, pattern) == ("conv", "ndconv") and not part.pool:
        return replace(part, pattern=pattern, dims=any_rank(part.dims))
    return None


@dataclass
class GrowingSegment:
    """A segment while it grows."""

    pattern: str
    anchor: str | None = None
    nodes: list[str] = field(default_factory=list)
    pool: str | None = None
    post: list[str] = field(default_factory=list)
    dims: dict[str, int | str] = field(default_factory=dict)

    def after(self) -> list[str]:
        """The nodes behind the last anchor, which may still grow."""
        return self.post if self.pool or self.pattern in INNER else self.nodes

    def members(self) -> list[str]:
        """All nodes of the group, anchors among them."""
        ends = [name for name in (self.anchor, self.pool) if name]
        return [*ends, *self.nodes, *self.post]


def leaving(program: LoweredProgram, group: GrowingSegment) -> list[str]:
    """Return the nodes of a group that others read, or that the forward returns."""
    inside = set(group.members())
    found = []
    for name in sorted(inside, key=list(program.nodes).index):
        outside = set(program.users[name]) - inside
        if outside or name in program.outputs:
            base = program.base(name)
            if base not in found:
                found.append(base if base in inside else name)
    return found


def as_segments(program: LoweredProgram, groups: list[GrowingSegment]) -> list[Segment]:
    """Return the groups as segments, each after those that it reads."""
    made = [_segment(program, group) for group in groups]
    done: set[str] = {name for name, node in program.nodes.items() if node.kind == "value"}
    ordered: list[Segment] = []
    while made:
        ready = next(s for s in made if all(program.base(n) in done for n in s.inputs))
        made.remove(ready)
        ordered.append(ready)
        done.update(ready.outputs)
    return ordered


def _operand(program: LoweredProgram, name: str) -> str:
    """Return what a recipe reads first: where sizes are read at run time, in the shape that it has."""
    base = program.base(name)
    viewed = program.nodes[name].shape != program.nodes[base].shape
    return name if program.symbolic and viewed else base


def _segment(program: LoweredProgram, group: GrowingSegment) -> Segment:
    inside = set(group.members())
    inputs: list[str] = []
    if group.anchor and group.pattern in _OPERANDS_FIRST:
        operator = program.operators[group.anchor]
        names = operand_order(operator, program.nodes[group.anchor].operands)
        inputs += [_operand(program, one) for one in names]
    members = group.members()
    for name in members[1:] if inputs else members:  # the anchor comes first
        for operand in program.nodes[name].operands:
            base = program.base(operand)
            if base not in inside and base not in inputs:
                inputs.append(base)
    outputs = leaving(program, group)
    last = max(inside, key=list(program.nodes).index)
    return Segment(
        id=f"{group.pattern}:{last}",
        pattern=group.pattern,
        anchor=group.anchor,
        nodes=tuple(group.nodes),
        pool=group.pool,
        post=tuple(group.post),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        dims=group.dims,
    )
