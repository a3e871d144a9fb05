"""C++ functions for the primitive nodes of one kernel; a recipe's template writes the loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from search.codegen.backends.expressions import (
    FLOATS,
    Emitter,
    Pair,
    StatementScope,
    c_lanes,
    c_pointer,
)
from search.codegen.backends.printers import CppPrinter
from search.codegen.backends.schedule import Schedule, Scheduler, online
from search.codegen.expressions import multiplies
from search.codegen.iteration_space import Access, Misfit
from search.codegen.loop_layout import LoopLayout

_SIGNATURE = "const float* const* in, long o, long m, long c, const S* s, float* kp, long ks"


@dataclass(frozen=True, slots=True, kw_only=True)
class CppRowPass:
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
    passes: tuple[CppRowPass, ...]
    finish: str
    rowout: str
    scalars: int
    kept: int
    online: bool


class CppEmitter(Emitter[LoopLayout]):
    """Writes expressions of one kernel's nodes in C++ for a processor."""

    printer = CppPrinter

    def load(self, pair: Pair, scope: StatementScope) -> str:
        """Return the text that reads `pair` from memory."""
        name, access = pair
        pointer, dtype = f"in[{self._inputs[name]}]", self.known[name].dtype
        base = self.start(access, row=scope.row)
        step = self._step(access, scope)
        if dtype not in FLOATS:
            return c_lanes(dtype, pointer, self._lane(access, scope))
        pointer = c_pointer(dtype, pointer)
        if step == 0:
            return f"to<V>(widened({pointer}[{base or 0}]))"
        if step == 1:
            return f"ld<V>({pointer} + {base + ' + ' if base else ''}c)"
        lane = self.loops.offset(access, self.loops.lanes, "(c + l)")
        return f"gather<V>({pointer} + {base or 0}, [&](int l) {{ return {lane or 0}; }})"

    def position(self, access: Access, scope: StatementScope) -> str:
        """Return the text of the positions that `access` counts, in lanes."""
        base, step = self.start(access, row=scope.row), self._step(access, scope)
        if step == 0:
            return f"alike<V>({base or 0})"
        if step == 1:
            return f"counted<V>({base + ' + ' if base else ''}c)"
        return f"ints<V>([&](int l) {{ return {self._lane(access, scope)}; }})"

    def _step(self, access: Access, scope: StatementScope) -> int | None:
        return 0 if scope.row and not self.loops.columns else self.loops.lane_step(access)

    def _lane(self, access: Access, scope: StatementScope) -> str:
        """Return the offset of lane ``l``."""
        lanes = self.loops.lanes if self._step(access, scope) != 0 else ()
        parts = (self.start(access, row=scope.row), self.loops.offset(access, lanes, "(c + l)"))
        return " + ".join(part for part in parts if part) or "0"

    def start(self, access: Access, *, row: bool) -> str:
        """Return the offset of the element at ``o`` and, below a row, ``m``."""
        parts = [self.loops.offset(access, self.loops.outer, "o")]
        if not row:
            parts.append(self.loops.offset(access, self.loops.middle, "m"))
        return " + ".join(part for part in parts if part)

    def place(self, pair: Pair, *, row: bool) -> str:
        """Return the address of the result of `pair`, in full or one a row."""
        base = self.start(pair[1], row=row)
        parts = [base] if base or not row else ["0"]
        parts += [] if row and not self.loops.columns else ["c"]
        pointer = f"out[{self._outputs[pair[0]]}]"
        if self.known[pair[0]].integer:
            raise Misfit  # kernels in C++ write numbers; positions are computed where they are read
        pointer = c_pointer(self.known[pair[0]].dtype, pointer, const=False)
        return " + ".join([pointer, *filter(None, parts)])

    def epilogue(self, name: str, result: Pair, given: Mapping[Pair, str], head: str) -> str:
        """Return a function of one value at ``(row, col)``, as anchored templates call it."""
        scope = StatementScope(given=given)
        text = self.value(scope, result)
        opening = "const long o = row, c = col, m = 0; (void)o; (void)c; (void)m; (void)in;"
        return _function(
            f"template <class V> INL V {name}({head}const float* const* in, long row, long col)",
            [opening, *_lines(scope), f"return to<V>({text});"],
        )


class RowWriter:
    """Writes the functions of a pointwise or row kernel.

    Args:
        fn: prefix of their names.
        keep: store what is costly and needed in several passes instead of computing it again.
    """

    def __init__(self, emitter: CppEmitter, fn: str, *, keep: bool) -> None:
        self._emitter = emitter
        self._fn = fn
        self._due: Schedule = Scheduler(emitter, keep=keep).run()
        known, full = emitter.known, emitter.walk.space.full
        repeated = self._due.repeated
        heavy = [pair for pair in sorted(repeated) if known[pair[0]].heavy and pair[1] == full]
        self._kept = {pair: at for at, pair in enumerate(heavy if keep else ())}
        # Products that several passes compute must come out the same in each: contracted into a fused
        # multiply-add in one pass only, they would shift an exponential's argument by a rounding, and
        # its numerator from its denominator.
        self._rounded = frozenset(
            pair
            for pair in repeated
            for expression in [known[pair[0]].expression]
            if expression is not None and multiplies(expression) and not known[pair[0]].mask
        )

    def build(self) -> Functions:
        """Return the functions by name."""
        due, fn = self._due, self._fn
        text = [self._after(0)]
        passes = []
        for at, step in enumerate(due.steps):
            text += [self._value(at), self._after(at + 1)]
            passes.append(
                CppRowPass(
                    kinds=tuple(str(self._emitter.known[name].reduction) for name, _ in step),
                    slots=tuple(due.slots[pair] for pair in step),
                    value=f"{fn}_v{at}",
                    after=f"{fn}_a{at + 1}",
                )
            )
        text += [self._finish()] if due.full else []
        text += [self._rowout()] if due.rows else []
        return Functions(
            text="\n".join(text),
            before=f"{fn}_a0",
            passes=tuple(passes),
            finish=f"{fn}_f" if due.full else "",
            rowout=f"{fn}_r" if due.rows else "",
            scalars=max(1, len(due.slots)),
            kept=len(self._kept),
            online=online(self._emitter.known, due),
        )

    def _scope(self, stage: int) -> StatementScope:
        """Return the scope of an element in a stage: earlier ones stored what is kept."""
        given = self._due.known(stage, "to<V>(s[{0}])")
        given |= {
            pair: f"ld<V>(kp + {at} * ks)"
            for pair, at in self._kept.items()
            if self._due.repeated[pair] < stage
        }
        return StatementScope(given=given, rounded=self._rounded)

    def _value(self, at: int) -> str:
        scope = self._scope(at)
        values = [self._emitter.value(scope, pair) for pair in self._due.stages[at]]
        stores = [
            f"st(kp + {slot} * ks, {scope.names[pair]});"
            for pair, slot in self._kept.items()
            if pair in scope.names
        ]
        lines = [f"v[{number}] = to<V>({value});" for number, value in enumerate(values)]
        head = f"template <class V, class S> INL void {self._fn}_v{at}({_SIGNATURE}, V* v)"
        return _function(head, [*_lines(scope), *stores, *lines])

    def _after(self, level: int) -> str:
        """The slots that are known once `level` passes are over."""
        due = self._due
        fresh = due.fresh(self._emitter, level)
        known = due.known(level, "s[{0}]")
        scope = StatementScope(
            given={p: name for p, name in known.items() if p not in fresh}, row=True
        )
        stores = [
            f"s[{at}] = to<V>({self._emitter.value(scope, pair)});" for pair, at in fresh.items()
        ]
        head = f"template <class V> INL void {self._fn}_a{level}(const float* const* in, long o, long c, V* s)"
        return _function(head, [*_lines(scope), *stores])

    def _finish(self) -> str:
        scope = self._scope(len(self._due.stages) - 1)
        stores = [
            f"st<NT>({self._emitter.place(pair, row=False)}, to<V>({self._emitter.value(scope, pair)}));"
            for pair in self._due.full
        ]
        signature = _SIGNATURE.replace("in, long o", "in, float* const* out, long o")
        head = f"template <class V, class S, bool NT> INL void {self._fn}_f({signature})"
        return _function(head, [*_lines(scope), *stores])

    def _rowout(self) -> str:
        slots = {pair: self._due.slots[self._emitter.base(pair)] for pair in self._due.rows}
        lines = [
            f"st({self._emitter.place(pair, row=True)}, s[{slot}]);" for pair, slot in slots.items()
        ]
        head = (
            f"template <class S> INL void {self._fn}_r"
            "(float* const* out, long o, long c, const S* s)"
        )
        return _function(head, lines)


def _lines(scope: StatementScope) -> list[str]:
    return [f"const auto {line};" for line in scope.lines]


def _function(head: str, lines: list[str]) -> str:
    return head + " {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
