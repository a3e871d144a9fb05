"""C++ functions for the primitive nodes of one kernel; a recipe's template writes the loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from search.codegen.access_analysis import Walk, operands
from search.codegen.ir import Node
from search.codegen.iteration_space import Access
from search.codegen.loop_layout import Layout

Pair = tuple[str, Access]
_SIGNATURE = "const float* const* in, long o, long m, long c, const S* s, float* kp, long ks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One walk along a row.

    Attributes:
        kinds: the prelude's reducers, one for each value that `value` writes to ``v[]``.
        slots: where the reduced values go in ``s[]``.
        value: name of the function of the values to reduce.
        after: name of the function that completes ``s[]`` once they are reduced.
    """

    kinds: tuple[str, ...]
    slots: tuple[int, ...]
    value: str
    after: str

    @property
    def count(self) -> int:
        """How many values it reduces."""
        return len(self.kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """What a template of pattern ``pointwise`` or ``rows`` is given as ``p``.

    Attributes:
        text: the C++ of the functions, to stand before the kernel.
        before: fills ``s[]`` before the first pass.
        finish: writes full results; empty where there are none.
        rowout: writes one result a row; empty where there are none.
        scalars: length of ``s[]``.
        kept: arrays of a row's length that a pass fills and later ones read.
        online: the first two passes are a maximum and a sum of exponentials shifted by it.
    """

    text: str
    before: str
    passes: tuple[Pass, ...]
    finish: str
    rowout: str
    scalars: int
    kept: int
    online: bool


@dataclass
class _Scope:
    """Statements of one function."""

    vector: str
    slots: Mapping[Pair, int]
    given: Mapping[Pair, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    names: dict[Pair, str] = field(default_factory=dict)
    row: bool = False
    rounded: frozenset[Pair] = frozenset()


class Emitter:
    """Writes expressions of one kernel's nodes."""

    def __init__(
        self, known: Mapping[str, Node], found: Walk, shape: Layout, inputs: tuple[str, ...]
    ) -> None:
        self._known = known
        self._walk = found
        self._layout = shape
        self._inputs = {name: at for at, name in enumerate(inputs)}
        self._read = {name for name, _ in found.sources}

    def value(self, scope: _Scope, pair: Pair) -> str:
        """Return the C++ name of the value of `pair`, adding what it needs to `scope`."""
        name, access = pair
        node = self._known[name]
        if node.kind == "view":
            return self.value(scope, (node.operands[0], access))
        if pair in scope.given:
            return scope.given[pair]
        if pair in scope.slots:
            slot = f"s[{scope.slots[pair]}]"
            return slot if scope.row else f"to<V>({slot})"
        if pair not in scope.names:
            text = self._load(pair, scope) if name in self._read else self._compute(scope, pair)
            if pair in scope.rounded:
                text = f"rounded<V>({text})"
            scope.names[pair] = f"t{len(scope.names)}"
            scope.lines.append(f"const auto {scope.names[pair]} = {text};")
        return scope.names[pair]

    def _compute(self, scope: _Scope, pair: Pair) -> str:
        node = self._known[pair[0]]
        below = operands(self._known, self._walk.space, node, pair[1])
        return node.form.format(*(self.value(scope, operand) for operand in below))

    def _load(self, pair: Pair, scope: _Scope) -> str:
        name, access = pair
        pointer = f"in[{self._inputs[name]}]"
        base = self.start(access, scope.row)
        step = 0 if scope.row and not self._layout.columns else self._layout.lane_step(access)
        if step == 0:
            return f"to<V>({pointer}[{base or 0}])"
        if step == 1:
            return f"ld<V>({pointer} + {base + ' + ' if base else ''}c)"
        lane = self._layout.offset(access, self._layout.lanes, "(c + l)")
        return f"gather<V>({pointer} + {base or 0}, [&](int l) {{ return {lane or 0}; }})"

    def start(self, access: Access, row: bool) -> str:
        """Return the offset of the element at ``o`` and, below a row, ``m``."""
        parts = [self._layout.offset(access, self._layout.outer, "o")]
        if not row:
            parts.append(self._layout.offset(access, self._layout.middle, "m"))
        return " + ".join(part for part in parts if part)

    def epilogue(self, name: str, result: Pair, given: Mapping[Pair, str], head: str) -> str:
        """Return a function of one value at ``(row, col)``, as anchored templates call it."""
        scope = _Scope(vector="V", slots={}, given=given)
        text = self.value(scope, result)
        body = "".join(f"  {line}\n" for line in scope.lines)
        opening = "  const long o = row, c = col, m = 0; (void)o; (void)c; (void)m; (void)in;\n"
        return (
            f"template <class V> INL V {name}({head}const float* const* in, long row, long col) {{\n"
            f"{opening}{body}  return to<V>({text});\n}}\n"
        )

    def functions(self, fn: str, outputs: tuple[str, ...], *, keep: bool) -> Functions:
        """Return the functions of a pointwise or row kernel.

        Args:
            fn: prefix of their names.
            outputs: nodes that the kernel writes, in the order of ``out``.
            keep: store what is costly and needed in several passes instead of computing it again.
        """
        return _Rows(self, fn, outputs, keep=keep).build()


class _Rows:
    """Schedules a row's reductions in passes, and what the passes share in slots."""

    def __init__(self, emitter: Emitter, fn: str, outputs: tuple[str, ...], *, keep: bool) -> None:
        self._emitter = emitter
        self._fn = fn
        self._known = emitter._known
        self._layout = emitter._layout
        self._space = emitter._walk.space
        self._outputs = {name: at for at, name in enumerate(outputs)}
        self._roots = emitter._walk.roots
        self._levels: dict[Pair, int] = {}
        self._slots: dict[Pair, int] = {}
        self._keep = keep

    def build(self) -> Functions:
        reduced = [pair for pair in sorted(self._emitter._walk.uses) if self._reduces(pair)]
        order = {name: at for at, name in enumerate(self._known)}
        reduced.sort(key=lambda pair: order[pair[0]])
        count = 1 + max((self._level(pair) - 1 for pair in reduced), default=-1)
        steps = [[pair for pair in reduced if self._level(pair) == at + 1] for at in range(count)]
        for pair in reduced:
            self._slots[pair] = len(self._slots)
        full = [(n, a) for n, a in self._roots.items() if not self._is_row_root((n, a))]
        rows = [(n, a) for n, a in self._roots.items() if self._is_row_root((n, a))]
        wanted = [
            [(self._known[name].operands[0], self._space.full) for name, _ in step]
            for step in steps
        ]
        stages = [*wanted, full]
        needed = dict.fromkeys(self._hoisted([p for stage in stages for p in stage], rows))
        for pair in needed:
            self._slots.setdefault(pair, len(self._slots))
        kept = self._kept(stages) if self._keep else {}
        text = [self._after(0)]
        passes = []
        for at, step in enumerate(steps):
            text.append(self._value(at, wanted[at], kept, stages))
            text.append(self._after(at + 1))
            passes.append(
                Pass(
                    kinds=tuple(self._known[name].form for name, _ in step),
                    slots=tuple(self._slots[pair] for pair in step),
                    value=f"{self._fn}_v{at}",
                    after=f"{self._fn}_a{at + 1}",
                )
            )
        text.append(self._finish(full, kept, stages) if full else "")
        text.append(self._rowout(rows) if rows else "")
        return Functions(
            text="\n".join(part for part in text if part),
            before=f"{self._fn}_a0",
            passes=tuple(passes),
            finish=f"{self._fn}_f" if full else "",
            rowout=f"{self._fn}_r" if rows else "",
            scalars=max(1, len(self._slots)),
            kept=len(kept),
            online=self._online(steps),
        )

    def _reduces(self, pair: Pair) -> bool:
        """Whether this kernel computes the reduction; another's result is read like any operand."""
        return self._known[pair[0]].kind == "reduce" and pair[0] not in self._emitter._read

    def _is_row_root(self, pair: Pair) -> bool:
        if self._space.depth == 1:
            return self._known[pair[0]].kind == "reduce"
        return pair[1] == self._space.row

    def _below(self, pair: Pair) -> tuple[Pair, ...]:
        if pair[0] in self._emitter._read:
            return ()
        return operands(self._known, self._space, self._known[pair[0]], pair[1])

    def _level(self, pair: Pair) -> int:
        """Return how many passes must be over before `pair` is known."""
        if pair not in self._levels:
            below = max((self._level(lower) for lower in self._below(pair)), default=0)
            self._levels[pair] = below + self._reduces(pair)
        return self._levels[pair]

    def _hoisted(self, full: Iterable[Pair], rows: Iterable[Pair]) -> list[Pair]:
        """Return pairs that are the same all along a row, computed once for it."""
        found: list[Pair] = list(rows)
        pending, seen = list(full), set()
        while pending:
            pair = pending.pop()
            if pair in seen:
                continue
            seen.add(pair)
            node = self._known[pair[0]]
            if self._layout.is_row(pair[1]) and not node.mask and node.kind != "view":
                found.append(pair)
            else:
                pending.extend(self._below(pair))
        order = {name: at for at, name in enumerate(self._known)}
        return sorted(found, key=lambda pair: (order[pair[0]], pair[1]))

    def _reached(self, stage: list[Pair]) -> set[Pair]:
        pending, seen = list(stage), set()
        while pending:
            pair = pending.pop()
            if pair not in seen and pair not in self._slots:
                seen.add(pair)
                pending.extend(self._below(pair))
        return seen

    def _kept(self, stages: list[list[Pair]]) -> dict[Pair, int]:
        reached = [self._reached(stage) for stage in stages]
        found = [
            pair
            for pair in sorted(set().union(*reached))
            if self._known[pair[0]].heavy
            and pair[1] == self._space.full
            and sum(pair in stage for stage in reached) > 1
        ]
        return {pair: at for at, pair in enumerate(found)}

    def _scope(self, kept: Mapping[Pair, int], at: int, stages: list[list[Pair]]) -> _Scope:
        earlier = set().union(*(self._reached(stage) for stage in stages[:at]), set())
        given = {pair: f"ld<V>(kp + {slot} * ks)" for pair, slot in kept.items() if pair in earlier}
        return _Scope(vector="V", slots=self._slots, given=given, rounded=self._recomputed(stages))

    def _recomputed(self, stages: list[list[Pair]]) -> frozenset[Pair]:
        """Products that several passes compute: they must come out the same in each.

        Contracted into a fused multiply-add in one pass only, they would shift an exponential's
        argument by a rounding, and its numerator from its denominator.
        """
        reached = [self._reached(stage) for stage in stages]
        return frozenset(
            pair
            for pair in set().union(*reached)
            if "*" in self._known[pair[0]].form
            and not self._known[pair[0]].mask
            and sum(pair in stage for stage in reached) > 1
        )

    def _store_kept(self, scope: _Scope, kept: Mapping[Pair, int]) -> list[str]:
        return [
            f"st(kp + {slot} * ks, {scope.names[pair]});"
            for pair, slot in kept.items()
            if pair in scope.names
        ]

    def _value(
        self, at: int, wanted: list[Pair], kept: Mapping[Pair, int], stages: list[list[Pair]]
    ) -> str:
        scope = self._scope(kept, at, stages)
        values = [f"v[{j}] = to<V>({self._emitter.value(scope, p)});" for j, p in enumerate(wanted)]
        lines = [*scope.lines, *self._store_kept(scope, kept), *values]
        head = f"template <class V, class S> INL void {self._fn}_v{at}({_SIGNATURE}, V* v)"
        return _function(head, lines)

    def _after(self, level: int) -> str:
        """The slots that are known once `level` passes are over."""
        reductions = {p for p in self._slots if self._reduces(p)}
        due = [p for p in self._slots if p not in reductions and self._level(p) == level]
        early = {p: n for p, n in self._slots.items() if p in reductions or self._level(p) < level}
        scope = _Scope(vector="V", slots=early, row=True)
        stores = [
            f"s[{self._slots[pair]}] = to<V>({self._emitter.value(scope, pair)});" for pair in due
        ]
        head = f"template <class V> INL void {self._fn}_a{level}(const float* const* in, long o, long c, V* s)"
        return _function(head, [*scope.lines, *stores])

    def _finish(self, full: list[Pair], kept: Mapping[Pair, int], stages: list[list[Pair]]) -> str:
        scope = self._scope(kept, len(stages) - 1, stages)
        stores = []
        for pair in full:
            base = self._emitter.start(pair[1], False)
            place = f"out[{self._outputs[pair[0]]}] + {base + ' + ' if base else ''}c"
            stores.append(f"st<NT>({place}, to<V>({self._emitter.value(scope, pair)}));")
        signature = _SIGNATURE.replace("in, long o", "in, float* const* out, long o")
        head = f"template <class V, class S, bool NT> INL void {self._fn}_f({signature})"
        return _function(head, [*scope.lines, *stores])

    def _rowout(self, rows: list[Pair]) -> str:
        lines = []
        for pair in rows:
            base = self._emitter.start(pair[1], True) or "0"
            lane = " + c" if self._layout.columns else ""
            lines.append(
                f"st(out[{self._outputs[pair[0]]}] + {base}{lane}, s[{self._slots[pair]}]);"
            )
        head = (
            f"template <class S> INL void {self._fn}_r"
            "(float* const* out, long o, long c, const S* s)"
        )
        return _function(head, lines)

    def _online(self, steps: list[list[Pair]]) -> bool:
        """Whether the passes are those of a softmax: maximum, then exponentials shifted by it."""
        if len(steps) != 2 or any(len(step) != 1 for step in steps):
            return False
        (highest,), (total,) = steps
        kinds = (self._known[highest[0]].form, self._known[total[0]].form)
        power = self._known[self._known[total[0]].operands[0]]
        if kinds != ("Max", "Sum") or power.form != "vexp({0})":
            return False
        shifted = self._known[power.operands[0]]
        source = self._known[highest[0]].operands[0]
        return shifted.form == "{0} - {1}" and shifted.operands == (source, highest[0])


def _function(head: str, lines: list[str]) -> str:
    return head + " {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
