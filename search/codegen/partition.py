"""Cutting the graph into segments: what one kernel, or one call of the library, does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from search.codegen.access_analysis import walk
from search.codegen.ir import SHORT
from search.codegen.iteration_space import Misfit
from search.codegen.lower import LoweredProgram
from search.codegen.operator_sizes import (
    anchor_dims,
    factor_dims,
    histogram_dims,
    pairs_dims,
    place_dims,
    pool_dims,
    recurrence_dims,
    sample_dims,
    scan_dims,
    select_dims,
)
from search.codegen.segments import (
    ATTENTION,
    INNER,
    SEVERAL,
    GrowingSegment,
    Segment,
    as_segments,
    leaving,
)

FUSED = (
    "pointwise", "rows", "pool", "scan", "place", "select", "histogram", "pairs", "factor", "conv", "ndconv", "matmul",
    "recurrence", "sample",
)  # fmt: skip
_READ = {
    "pool": pool_dims,
    "scan": scan_dims,
    "place": place_dims,
    "select": select_dims,
    "histogram": histogram_dims,
    "pairs": pairs_dims,
    "factor": factor_dims,
    "recurrence": recurrence_dims,
    "sample": sample_dims,
}


def segment(program: LoweredProgram, library: Iterable[str]) -> tuple[Segment, ...]:
    """Cut `program` into segments, in an order in which they can run.

    Args:
        library: anchors (convolutions, products) that a library call does, though a recipe could.
    """
    chosen = frozenset(library)
    found = _segments(program, chosen, masks=True)
    if any(program.nodes[name].mask for part in found for name in part.outputs):
        # A kernel would have to write truth values: computed where they are used, perhaps none has to.
        found = _segments(program, chosen, masks=False)
    return found


def _segments(
    program: LoweredProgram, library: frozenset[str], *, masks: bool
) -> tuple[Segment, ...]:
    barriers: set[str] = set()
    while True:
        cut = _Cutter(program, library, frozenset(barriers), masks=masks)
        groups = cut.run()
        wrong = cut.wrong(groups)
        if not wrong - barriers:
            return tuple(as_segments(program, groups))
        barriers |= wrong


class _Cutter:
    """Grows groups along the graph in execution order.

    Args:
        barriers: nodes that join no group before them.
        masks: truth values may be computed behind a convolution or a product, in its kernel.
    """

    def __init__(
        self,
        program: LoweredProgram,
        library: frozenset[str],
        barriers: frozenset[str],
        *,
        masks: bool,
    ) -> None:
        self._masks_behind = masks
        self._program = program
        self._nodes = program.nodes
        self._library = library
        self._barriers = barriers
        self._groups: list[GrowingSegment] = []
        self._of: dict[str, GrowingSegment] = {}

    def run(self) -> list[GrowingSegment]:
        """Assign every node that is not a plain view of something materialised."""
        for name, node in self._nodes.items():
            if node.kind == "value":
                continue
            if node.kind == "opaque":
                self._place_opaque(name)
            elif node.kind == "view" and self._program.base(name) not in self._of:
                continue  # a view of a value is read through
            else:
                self._place(name)
        return [group for group in self._groups if group.members()]

    def _place(self, name: str) -> None:
        for group in self._producers(name):
            if name not in self._barriers and self._joins(group, name):
                self._add(group, name)
                return
        if self._nodes[name].kind == "view":
            return  # a view of what another segment writes is read through
        pattern = "rows" if self._nodes[name].kind == "reduce" else "pointwise"
        self._open(GrowingSegment(pattern, nodes=[name]))

    def _open(self, group: GrowingSegment) -> None:
        self._groups.append(group)
        for name in group.members():
            self._of[name] = group

    def _add(self, group: GrowingSegment, name: str) -> None:
        others = [g for g in self._producers(name) if g is not group]
        for other in others:
            if self._merges(group, other, name):
                for member in other.nodes:
                    self._of[member] = group
                kept = group.after()
                kept[:] = sorted(other.nodes + kept, key=list(self._nodes).index)
                if other.pattern == "rows":
                    group.pattern = "rows"
                other.nodes = []
        group.after().append(name)
        if self._nodes[name].kind == "reduce":
            group.pattern = "rows"
        self._of[name] = group

    def _producers(self, name: str) -> list[GrowingSegment]:
        """Return the fusible groups that `name` reads, the latest first."""
        found: list[GrowingSegment] = []
        for operand in self._nodes[name].operands:
            group = self._of.get(operand) or self._of.get(self._program.base(operand))
            if group is not None and group.pattern in FUSED and group not in found:
                found.append(group)
        # Where sizes are read at run time, what follows an anchor joins it before anything else.
        first = self._program.symbolic
        return sorted(
            found,
            key=lambda group: (first and group.anchor is not None, self._groups.index(group)),
            reverse=True,
        )

    def _joins(self, group: GrowingSegment, name: str) -> bool:
        if self._depends(name, group) or group.pattern in (
            "select",
            "histogram",
            "pairs",
            "factor",
        ):
            return False  # nothing follows a selection, a count, distances or a factorisation in their kernel
        node = self._nodes[name]
        coming = self._masks(name, group)
        if group.anchor is None:
            return self._fits([*coming, *group.nodes, name])
        tip = group.pool or group.anchor
        if node.kind == "reduce" or node.numel != self._nodes[tip].numel:
            return False
        if node.mask and not self._masks_behind:
            return False
        if node.dtype in SHORT and not self._program.symbolic:
            return False  # what follows a product in C++ is written in float32
        return self._fits([*group.after(), name], tip)

    def _masks(self, name: str, group: GrowingSegment) -> list[str]:
        """Return the nodes of other groups that compute truth values for `name`: they have to come along."""
        given = [n for n in self._nodes[name].operands if self._nodes[n].mask and n in self._of]
        others = dict.fromkeys(id(self._of[n]) for n in given if self._of[n] is not group)
        chosen = [g for g in self._groups if id(g) in others and g.anchor is None]
        return [member for other in chosen for member in other.nodes]

    def _merges(self, group: GrowingSegment, other: GrowingSegment, name: str) -> bool:
        """Whether `other`, which `name` also reads, may become part of `group`."""
        if other.anchor or self._between(group, other):
            return False
        if group.anchor is None:
            coming = (n for n in self._masks(name, group) if n not in other.nodes)
            return self._fits([*other.nodes, *coming, *group.nodes, name])
        return self._program.symbolic and self._serves(group, other, name)

    def _serves(self, group: GrowingSegment, other: GrowingSegment, name: str) -> bool:
        """Whether `other` computes, from less, only what `name` behind an anchor needs."""
        inside = {*other.members(), name}
        users = {user for member in other.members() for user in self._program.users[member]}
        small = all(self._nodes[n].numel < self._nodes[name].numel for n in other.members())
        if not small or users - inside or other.pattern != "pointwise":
            return False
        return self._fits([*other.nodes, *group.after(), name], group.pool or group.anchor)

    def _between(self, group: GrowingSegment, other: GrowingSegment) -> bool:
        """Whether one group reaches the other through a third."""
        ours, theirs = set(group.members()), set(other.members())
        return self._detour(ours, theirs) or self._detour(theirs, ours)

    def _detour(self, start: set[str], goal: set[str]) -> bool:
        third = {
            user
            for name in start
            for user in self._program.users[name]
            if user not in start and user not in goal and not self._free(user)
        }
        third |= {
            user
            for name in start
            for view in self._program.users[name]
            if self._free(view)
            for user in self._program.users[view]
            if user not in start and user not in goal
        }
        return bool(self._downstream(third) & goal)

    def _free(self, name: str) -> bool:
        return self._nodes[name].kind == "view" and name not in self._of

    def _downstream(self, names: set[str]) -> set[str]:
        seen, pending = set(names), list(names)
        while pending:
            for user in self._program.users[pending.pop()]:
                if user not in seen:
                    seen.add(user)
                    pending.append(user)
        return seen

    def _depends(self, name: str, group: GrowingSegment) -> bool:
        """Whether `name` reads, outside `group`, something that depends on it."""
        inside = set(group.members())
        outside = {
            user for member in inside for user in self._program.users[member] if user not in inside
        }
        outside.discard(name)
        return name in self._downstream(outside)

    def _fits(self, names: list[str], tip: str | None = None) -> bool:
        ends = [n for n in names if not set(self._program.users[n]) & set(names)]
        try:
            if tip is None:
                walk(self._nodes, names, ends, unfinished=True)
            else:
                shape = self._nodes[tip].shape
                group = self._of[tip]
                borders = plane_borders(group.pattern, shape, group.dims)
                found = walk(self._nodes, [*names, tip], ends, borders, unfinished=True)
                # The anchor's result is at hand where it is due, and nowhere else.
                return (tip, found.space.full) in found.uses and all(
                    access == found.space.full for name, access in found.uses if name == tip
                )
        except Misfit:
            return False
        return True

    def _place_opaque(self, name: str) -> None:
        operator = self._program.operators[name]
        whole = (
            self._of.get(self._nodes[name].operands[0]) if operator.target == "getitem" else None
        )
        if whole is not None and whole.pattern in SEVERAL:
            self._add(whole, name)
            return
        for pattern, read in _READ.items():
            found = read(self._program, operator)
            if found is not None and pattern in INNER:
                self._place_inner(name, pattern, found)
            elif found is not None:
                self._open(GrowingSegment(pattern, anchor=name, dims=found))
            if found is not None:
                return
        product = anchor_dims(self._program, operator)
        if product is None or name in self._library:
            self._open(GrowingSegment("library", anchor=name))
            return
        pattern, dims = product
        self._open(GrowingSegment(pattern, anchor=name, dims=dims))

    def _place_inner(self, name: str, pattern: str, dims: dict[str, int | str]) -> None:
        source = self._nodes[name].operands[0]
        group = self._of.get(source)
        if group and name not in self._barriers and group.pool is None:
            inside = set(group.members())
            leaving = [n for n in group.members() if set(self._program.users[n]) - inside]
            alone = leaving == [source] and self._program.users[source] == (name,)
            even = pattern == "pool" and not (dims["uneven_h"] or dims["uneven_w"] or dims["ceil"])
            if alone and group.pattern == "conv" and even:
                group.pool, group.dims = name, {**group.dims, **dims}
                self._of[name] = group
                return
            borders = plane_borders(pattern, self._nodes[source].shape, dims)
            if alone and group.pattern == "pointwise" and self._borders_fit(group, source, borders):
                group.pattern, group.anchor, group.dims = pattern, name, dims
                self._of[name] = group
                return
        self._open(GrowingSegment(pattern, anchor=name, dims=dims))

    def _borders_fit(self, group: GrowingSegment, source: str, borders: tuple[int, ...]) -> bool:
        try:
            walk(self._nodes, group.nodes, [source], borders)
        except Misfit:
            return False
        return True

    def wrong(self, groups: list[GrowingSegment]) -> set[str]:
        """Return nodes that must not stay where they are: more leaves a kernel than it can write."""
        found: set[str] = set()
        for group in groups:
            inside = set(group.members())
            left = leaving(self._program, group)
            one = group.pattern not in SEVERAL
            if group.anchor and group.pattern in FUSED and one and len(left) > 1:
                members = sorted(inside, key=list(self._nodes).index)
                first = min(members.index(name) for name in left)
                found |= set(members[first + 1 :])
                if group.pattern in INNER and group.anchor not in found:
                    found |= set(members[1:])
            elif group.anchor is None:
                try:
                    walk(self._nodes, group.nodes, left)
                except Misfit:
                    # A small intermediate is wanted outside: it starts a segment of its own, and
                    # what is bigger must not draw it in.
                    full = max(self._nodes[name].numel for name in group.nodes)
                    found |= {n for n in group.nodes if self._nodes[n].numel == full} or inside
        return found


def plane_borders(
    pattern: str, shape: tuple[int, ...], dims: Mapping[str, int | str]
) -> tuple[int, ...]:
    """Return the suffix products between which a row of an anchor's result lies.

    The first is the number of elements of a row with all that is inside it; a second says how many
    elements lie between neighbours of the row, one where there is none.
    """
    if pattern in ("matmul", "recurrence", ATTENTION):
        return (shape[-1] if shape else 1,)
    if pattern in ("ndconv", "sample"):
        return (math.prod(shape[2:]),)
    if pattern in ("scan", "place", "select", "histogram", "pairs", "factor"):
        inner = int(dims["inner"])
        return (int(dims["length"]) * inner, inner)
    return (shape[-1] * shape[-2],)
