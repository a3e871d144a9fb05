"""Which elements of each node a fused kernel needs, or that it cannot be one kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from search.codegen.ir import IrNode
from search.codegen.iteration_space import Access, Misfit, Space, make_space, operand_access


@dataclass(frozen=True, kw_only=True)
class Walk:
    """A kernel's iteration space and the accesses in it.

    Attributes:
        roots: nodes that leave the kernel, with their access.
        uses: every (node, access) pair that is computed or read.
        sources: pairs that are read from memory.
    """

    space: Space
    roots: Mapping[str, Access]
    uses: frozenset[tuple[str, Access]]
    sources: frozenset[tuple[str, Access]]


def operands(
    known: Mapping[str, IrNode], space: Space, node: IrNode, access: Access
) -> tuple[tuple[str, Access], ...]:
    """Return what `node` at `access` is computed from.

    Raises:
        Misfit: it cannot be computed there.
    """
    if node.kind == "view":
        return ((node.operands[0], access),)
    if node.kind == "reduce":
        if access != space.row:
            raise Misfit
        return ((node.operands[0], space.full),)
    found = []
    for name in node.operands:
        shape = known[name].shape
        found.append((name, operand_access(space, access, node.shape, shape)))
    return tuple(found)


def walk(
    known: Mapping[str, IrNode],
    inside: Iterable[str],
    leaving: Iterable[str],
    borders: tuple[int, ...] = (),
    *,
    unfinished: bool = False,
) -> Walk:
    """Return the walk of a kernel that computes the nodes `inside` and writes those `leaving`.

    Args:
        unfinished: more nodes will join, so that those `leaving` may be truth values, which nothing writes.

    Raises:
        Misfit: no single kernel does that.
    """
    members = dict.fromkeys(inside)
    space = make_space((known[name] for name in members), known, borders)
    roots = {name: _root(space, known[name]) for name in leaving}
    if not unfinished and any(known[name].mask for name in roots):
        raise Misfit
    uses: set[tuple[str, Access]] = set()
    sources: set[tuple[str, Access]] = set()
    pending = list(roots.items())
    while pending:
        pair = pending.pop()
        if pair in uses:
            continue
        uses.add(pair)
        name, access = pair
        node = known[name]
        if name not in members and node.kind != "view":
            # Truth values can be read from memory where the caller or the library stored them, not where a map did.
            if not node.usable or (node.mask and node.kind not in ("value", "opaque")):
                raise Misfit
            sources.add(pair)
            continue
        _check_cost(space, node, access)
        pending.extend(operands(known, space, node, access))
    return Walk(space=space, roots=roots, uses=frozenset(uses), sources=frozenset(sources))


def _root(space: Space, node: IrNode) -> Access:
    if node.numel == space.numel:
        return space.full
    if space.reduced != (0, 0) and node.numel * space.depth == space.numel:
        return space.row
    raise Misfit


def _check_cost(space: Space, node: IrNode, access: Access) -> None:
    if not node.heavy or access in (space.full, space.row) or access[-1] == 0:
        return
    # A costly function of a small operand is better computed once, by a kernel of its own.
    if node.numel * 4 <= space.numel:
        raise Misfit
