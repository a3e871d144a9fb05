"""A row's reductions in passes, and what the passes share: slots of a row, and held elements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from search.codegen.backends.expressions import Emitter, Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When everything that a row kernel computes is due.

    Attributes:
        steps: the reductions of each pass.
        stages: what each pass reduces, and last what is written in full.
        slots: one value a row, by its number.
        held: elements that several stages need, by number; each is computed at its level.
        rows: results of one value a row.
        level: how many passes must be over before a value is known.
        first: the first stage that needs a held element.
    """

    steps: list[list[Pair]]
    stages: list[list[Pair]]
    slots: dict[Pair, int]
    held: dict[Pair, int]
    full: list[Pair]
    rows: list[Pair]
    level: dict[Pair, int]
    first: dict[Pair, int]


@dataclass
class Scheduler:
    """Makes the schedule of one kernel.

    Attributes:
        keep: hold what later passes compute as well, such as exponentials.
    """

    emitter: Emitter
    keep: bool
    _levels: dict[Pair, int] = field(default_factory=dict)

    def run(self) -> Schedule:
        """Return the schedule."""
        emitter = self.emitter
        order = {name: at for at, name in enumerate(emitter.known)}
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
        for pair in self._hoisted([pair for stage in stages for pair in stage], based, order):
            slots.setdefault(pair, len(slots))
        held = self._held(stages, slots)
        return Schedule(
            steps=steps,
            stages=stages,
            slots=slots,
            held=held,
            full=full,
            rows=rows,
            level={pair: self._level(pair) for pair in (*slots, *held)},
            first={pair: self._first(pair, stages, slots) for pair in held},
        )

    def _is_row_root(self, pair: Pair) -> bool:
        space = self.emitter.walk.space
        if space.reduced == (0, 0):
            return False
        if space.depth == 1:
            return self.emitter.known[self.emitter.base(pair)[0]].kind == "reduce"
        return pair[1] == space.row

    def _level(self, pair: Pair) -> int:
        if pair not in self._levels:
            below = max((self._level(lower) for lower in self.emitter.below(pair)), default=0)
            self._levels[pair] = below + self.emitter.reduces(pair)
        return self._levels[pair]

    def _hoisted(
        self, full: Iterable[Pair], rows: Iterable[Pair], order: dict[str, int]
    ) -> list[Pair]:
        """Return pairs that are the same all along a row, computed once for it."""
        emitter = self.emitter
        found = list(rows)
        pending, seen = list(full), set()
        while pending:
            pair = pending.pop()
            if pair in seen:
                continue
            seen.add(pair)
            if emitter.frame.is_row(pair[1]) and not emitter.known[pair[0]].mask:
                found.append(pair)
            else:
                pending.extend(emitter.below(pair))
        return sorted(found, key=lambda pair: (order[pair[0]], pair[1]))

    def _held(self, stages: list[list[Pair]], slots: dict[Pair, int]) -> dict[Pair, int]:
        """Return where the stages enter what several of them compute or read."""
        counts: dict[Pair, int] = {}
        for stage in stages:
            for pair in self._reached(stage, slots, ()):
                counts[pair] = counts.get(pair, 0) + 1
        shared = {
            pair
            for pair, count in counts.items()
            if count > 1 and (self.keep or self._level(pair) == 0)
        }
        entries: set[Pair] = set()
        for stage in stages:
            entries |= set(self._reached(stage, slots, shared)) & shared
        order = {name: at for at, name in enumerate(self.emitter.known)}
        listed = sorted(entries, key=lambda pair: (self._level(pair), order[pair[0]], pair[1]))
        return {pair: at for at, pair in enumerate(listed)}

    def _first(self, pair: Pair, stages: list[list[Pair]], slots: dict[Pair, int]) -> int:
        return next(
            at for at, stage in enumerate(stages) if pair in self._reached(stage, slots, ())
        )

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
                pending.extend(self.emitter.below(pair))
        return list(seen)
