"""A row's reductions in passes, and what the passes share: slots of a row, and held elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from search.codegen.backends.expressions import Emitter, Pair
from search.codegen.expressions import MAX, MEAN, SUM, Operand, exp, square
from search.codegen.ir import IrNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When everything that a row kernel computes is due.

    Attributes:
        steps: the reductions of each pass.
        stages: what each pass reduces, and last what is written in full.
        slots: one value a row, by its number.
        full: results of whole rows.
        rows: results of one value a row.
        level: how many passes must be over before a value is known.
        repeated: elements that several stages compute or read, with the first stage that does.
        held: those of them, by number, at which a stage enters what it shares with others; each is
            computed at its level.
    """

    steps: list[list[Pair]]
    stages: list[list[Pair]]
    slots: dict[Pair, int]
    full: list[Pair]
    rows: list[Pair]
    level: dict[Pair, int]
    repeated: dict[Pair, int]
    held: dict[Pair, int]

    def known(self, level: int, slot: str, held: str = "") -> dict[Pair, str]:
        """Return the names of what is known when `level` passes are over.

        Args:
            slot: spelling of slot ``{0}``.
            held: spelling of held element ``{0}``; empty in what is of a row.
        """
        names = {
            pair: slot.format(at) for pair, at in self.slots.items() if self.level[pair] <= level
        }
        if held:
            # What is known beforehand is loaded; what a pass computes is held from the next on.
            names |= {
                pair: held.format(at)
                for pair, at in self.held.items()
                if self.repeated[pair] < level or self.level[pair] == 0
            }
        return names

    def entering(self, stage: int) -> dict[Pair, int]:
        """Return what `stage` is the first to compute of what is held, by number."""
        return {
            pair: at
            for pair, at in self.held.items()
            if self.level[pair] > 0 and self.repeated[pair] == stage
        }

    def fresh(self, emitter: Emitter[Any], level: int) -> dict[Pair, int]:
        """Return the slots that are computed once `level` passes are over."""
        return {
            pair: at
            for pair, at in self.slots.items()
            if self.level[pair] == level and not emitter.reduces(pair)
        }


class Scheduler:
    """Makes the schedule of one kernel.

    Args:
        keep: hold what later passes compute as well, such as exponentials.
    """

    def __init__(self, emitter: Emitter[Any], *, keep: bool) -> None:
        self._emitter = emitter
        self._keep = keep
        self._levels: dict[Pair, int] = {}
        self._order = {name: at for at, name in enumerate(emitter.known)}

    def run(self) -> Schedule:
        """Return the schedule."""
        emitter, order = self._emitter, self._order
        uses = sorted({emitter.base(pair) for pair in emitter.walk.uses})
        reduced = sorted(filter(emitter.reduces, uses), key=lambda pair: order[pair[0]])
        count = max((self._level(pair) for pair in reduced), default=0)
        steps = [[pair for pair in reduced if self._level(pair) == at + 1] for at in range(count)]
        roots = list(emitter.walk.roots.items())
        rows = [pair for pair in roots if self._is_row_root(pair)]
        full = [pair for pair in roots if pair not in rows]
        stages = [[emitter.below(pair)[0] for pair in step] for step in steps]
        stages.append([emitter.base(pair) for pair in full])
        slots = {pair: at for at, pair in enumerate(reduced)}
        based = [emitter.base(pair) for pair in rows]
        for pair in self._hoisted([pair for stage in stages for pair in stage], based):
            slots.setdefault(pair, len(slots))
        repeated = self._repeated(stages, slots)
        held = self._held(stages, slots, repeated)
        return Schedule(
            steps=steps,
            stages=stages,
            slots=slots,
            full=full,
            rows=rows,
            level={pair: self._level(pair) for pair in (*slots, *repeated)},
            repeated=repeated,
            held=held,
        )

    def _is_row_root(self, pair: Pair) -> bool:
        space = self._emitter.walk.space
        if space.reduced == (0, 0):
            return False
        if space.depth == 1:
            return self._emitter.known[self._emitter.base(pair)[0]].kind == "reduce"
        return pair[1] == space.row

    def _level(self, pair: Pair) -> int:
        if pair not in self._levels:
            below = max((self._level(lower) for lower in self._emitter.below(pair)), default=0)
            self._levels[pair] = below + self._emitter.reduces(pair)
        return self._levels[pair]

    def _hoisted(self, full: Iterable[Pair], rows: Iterable[Pair]) -> list[Pair]:
        """Return pairs that are the same all along a row, computed once for it."""
        emitter = self._emitter
        found = list(rows)
        pending, seen = list(full), set()
        while pending:
            pair = pending.pop()
            if pair in seen:
                continue
            seen.add(pair)
            if emitter.loops.is_row(pair[1]) and emitter.holds(pair):
                found.append(pair)
            else:
                pending.extend(emitter.below(pair))
        return sorted(found, key=lambda pair: (self._order[pair[0]], pair[1]))

    def _repeated(self, stages: list[list[Pair]], slots: dict[Pair, int]) -> dict[Pair, int]:
        reached = [self._reached(stage, slots, ()) for stage in stages]
        firsts: dict[Pair, int] = {}
        found: dict[Pair, int] = {}
        for at, stage in enumerate(reached):
            for pair in stage:
                if firsts.setdefault(pair, at) < at:
                    found[pair] = firsts[pair]
        return found

    def _held(
        self, stages: list[list[Pair]], slots: dict[Pair, int], repeated: Mapping[Pair, int]
    ) -> dict[Pair, int]:
        """Return where the stages enter what several of them compute or read."""
        shared = {pair for pair in repeated if self._keep or self._level(pair) == 0}
        entries: set[Pair] = set()
        for stage in stages:
            entries |= set(self._reached(stage, slots, shared)) & shared
        listed = sorted(
            entries, key=lambda pair: (self._level(pair), self._order[pair[0]], pair[1])
        )
        return {pair: at for at, pair in enumerate(listed)}

    def _reached(
        self, stage: Iterable[Pair], slots: Iterable[Pair], ends: Iterable[Pair]
    ) -> list[Pair]:
        stop, known = set(ends), set(slots)
        pending, seen = list(stage), dict[Pair, None]()
        while pending:
            pair = pending.pop()
            if pair in seen or pair in known:
                continue
            seen[pair] = None
            if pair not in stop:
                pending.extend(self._emitter.below(pair))
        return list(seen)


def shifted(known: Mapping[str, IrNode], due: Schedule) -> int | None:
    """Return which reduction of the first pass is a softmax's maximum, None where there is none.

    The second pass must be the sum of the exponentials that it shifts.
    """
    if len(due.steps) != 2 or len(due.steps[1]) != 1:
        return None
    ((total, _),) = due.steps[1]
    power = known[known[total].operands[0]]
    if known[total].reduction != SUM or power.expression != exp(Operand(0)):
        return None
    difference = known[power.operands[0]]
    for at, (highest, _) in enumerate(due.steps[0]):
        pair = (known[highest].operands[0], highest)
        if known[highest].reduction == MAX and difference.operands == pair:
            return at if difference.expression == Operand(0) - Operand(1) else None
    return None


def online(known: Mapping[str, IrNode], due: Schedule) -> bool:
    """Whether the passes are those of a softmax: maximum, then exponentials shifted by it."""
    return shifted(known, due) == 0 and len(due.steps[0]) == 1


def moments(known: Mapping[str, IrNode], due: Schedule) -> bool:
    """Whether the passes are a mean and the mean of squared differences from it."""
    if len(due.steps) != 2 or any(len(step) != 1 for step in due.steps):
        return False
    (mean,), (spread,) = due.steps
    last = known[spread[0]].reduction
    if known[mean[0]].reduction != MEAN or last is None or not last.mean:
        return False
    squared = known[known[spread[0]].operands[0]]
    if squared.expression != square(Operand(0)):
        return False
    centred = known[squared.operands[0]]
    source = known[mean[0]].operands[0]
    return centred.expression == Operand(0) - Operand(1) and centred.operands == (source, mean[0])
