"""What a GPU recipe's template is given: helper functions as calls, host lines, reducers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from search.codegen.access_analysis import Walk
from search.codegen.backends.expressions import Emitter, Frame, Pair, StatementScope
from search.codegen.backends.printers import TritonPrinter
from search.codegen.backends.schedule import Schedule, moments, online, shifted
from search.codegen.backends.symbolic_sizes import Extent
from search.codegen.expressions import Reduction
from search.codegen.ir import SHORT, IrNode
from search.codegen.iteration_space import Access

Statement = Callable[..., str]
_JOINS = {"Sum": "{0} + {1}", "Prod": "{0} * {1}", "Max": "vmax({0}, {1})", "Min": "vmin({0}, {1})"}
_IDENTITIES = {"Sum": "0.0", "Prod": "1.0", "Max": 'float("-inf")', "Min": 'float("inf")'}
_REDUCES = {
    "Sum": "tl.sum({0}, {1})",
    "Prod": "tl.reduce({0}, {1}, vtimes)",
    "Max": "tl.reduce({0}, {1}, vmax)",
    "Min": "tl.reduce({0}, {1}, vmin)",
}


class TritonEmitter(Emitter[Frame]):
    """Writes expressions of one kernel's nodes in Triton.

    Args:
        extent: names of the space's sizes.
    """

    printer = TritonPrinter
    held = "anything"

    def __init__(
        self,
        known: Mapping[str, IrNode],
        found: Walk,
        frame: Frame,
        extent: Extent,
        inputs: Sequence[str],
        outputs: Sequence[str] = (),
    ) -> None:
        super().__init__(known, found, frame, inputs, outputs)
        self.extent = extent

    def position(self, access: Access, scope: StatementScope) -> str:
        """Return the text of the position that `access` counts."""
        return f"({self.offset(access, row=scope.row) or 0})"

    def load(self, pair: Pair, scope: StatementScope) -> str:
        """Return the text that reads `pair` from memory."""
        name, access = pair
        offset = self.offset(access, row=scope.row)
        pointer = f"in{self._inputs[name]}" + (f" + {offset}" if offset else "")
        mask = self.mask(access, row=scope.row)
        text = f"tl.load({pointer}{f', mask={mask}' if mask else ''})"
        return f"{text}.to(tl.float32)" if self.known[name].dtype in SHORT else text

    def offset(self, access: Access, *, row: bool) -> str:
        """Return the offset of the element at ``o`` and, unless `row`, ``c``; may be empty."""
        parts = [self.extent.offset(access, self.loops.outer, "o")]
        if not row:
            parts.append(self.extent.offset(access, self.loops.inner, "c"))
        return " + ".join(part for part in parts if part)

    def mask(self, access: Access, *, row: bool) -> str:
        """Return the mask of what is read or written with `access`; may be empty."""
        parts = [] if self.loops.is_column(access) else ["live"]
        if not row and not self.loops.is_row(access):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reducer:
    """One value that a pass reduces.

    Attributes:
        value: name of the elements to reduce, as the pass's statement sets it.
        slot: name under which later statements expect the result.
        count: text of the divisor of a mean, else empty.
        shift: a maximum that only shifts exponentials: not a number shows in their sum anyway.
    """

    value: str
    slot: str
    reduction: Reduction
    count: str
    shift: bool

    @property
    def identity(self) -> str:
        """What leaves the result as it is."""
        return _IDENTITIES[self.reduction.join]

    def masked(self, mask: str) -> str:
        """Return the elements with what lies outside made neutral."""
        return f"tl.where({mask}, {self.value}, {self.identity})"

    def reduce(self, tile: str, axis: int) -> str:
        """Return the reduction of `tile` along `axis`."""
        if self.shift:
            return f"tl.max({tile}, {axis})"
        return _REDUCES[self.reduction.join].format(tile, axis)

    def join(self, one: str, other: str) -> str:
        """Return two partial results as one."""
        return _JOINS[self.reduction.join].format(one, other)

    def complete(self, total: str) -> str:
        """Return the result: a mean's sum over its count."""
        return f"{total} / ({self.count})" if self.count else total


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonRowPass:
    """One walk along a row.

    Attributes:
        value: statement that sets the reducers' values at ``(o, c, live, inside)``.
        after: statement that sets row values at ``(o, live)`` once the slots are complete.
    """

    reducers: tuple[Reducer, ...]
    value: Statement
    after: Statement


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a template of pattern ``pointwise`` or ``rows`` is given besides `Signature`.

    Attributes:
        text: the functions, to stand before the kernel.
        before: statement that sets row values before the first pass, at ``(o, live)``.
        load: statement that sets what several passes need, at ``(o, c, live, inside)``.
        finish: statement that writes full results, at ``(o, c, live, inside)``.
        rowout: statement that writes one result a row, at ``(o, live)``.
        full, single: whether there are such results.
        held: how many values `load` and the passes hold.
        slots: names of all values a row.
        online: the passes are a maximum and a sum of exponentials shifted by it.
        top: the maximum where the passes are so, and the first may reduce more besides it.
        moments: the passes are a mean and the mean of squared differences from it.
    """

    text: str
    passes: tuple[TritonRowPass, ...]
    before: Statement
    load: Statement
    finish: Statement
    rowout: Statement
    full: bool
    single: bool
    held: int
    slots: tuple[str, ...]
    online: bool
    top: Reducer | None
    moments: bool


def define(name: str, head: Sequence[str], parameters: str, lines: Sequence[str]) -> str:
    """Return the text of an inlined device function."""
    first = ", ".join([*head, *([parameters] if parameters else [])])
    body = "".join(f"    {line}\n" for line in lines)
    return f"@triton.jit\ndef {name}({first}):\n{body}"


class PartsWriter:
    """Writes the functions of a pointwise or row kernel.

    Args:
        fn: prefix of their names.
        parameters: what follows the indices in every signature.
        arguments: the same in calls.
        stream: results go past the caches.
    """

    def __init__(
        self,
        emitter: TritonEmitter,
        due: Schedule,
        fn: str,
        parameters: str,
        arguments: str,
        *,
        stream: bool,
    ) -> None:
        self._emitter = emitter
        self._due = due
        self._fn = fn
        self._parameters = parameters
        self._arguments = arguments
        self._stream = stream
        self._texts: list[str] = []
        self._top: Pair | None = None

    def build(self) -> Parts:
        """Return the functions with the statements that call them."""
        due = self._due
        found = shifted(self._emitter.known, due)
        self._top = None if found is None else due.steps[0][found]
        before = self._after(0)
        load = self._load()
        passes = tuple(self._pass(at) for at in range(len(due.steps)))
        finish = self._finish() if due.full else _nothing
        rowout = self._rowout() if due.rows else _nothing
        return Parts(
            text="\n\n".join(self._texts),
            passes=passes,
            before=before,
            load=load,
            finish=finish,
            rowout=rowout,
            full=bool(due.full),
            single=bool(due.rows),
            held=len(due.held),
            slots=tuple(f"s{at}" for at in sorted(due.slots.values())),
            online=online(self._emitter.known, due),
            top=None if found is None else passes[0].reducers[found],
            moments=moments(self._emitter.known, due),
        )

    def _statement(
        self, suffix: str, indices: str, given: Sequence[str], lines: list[str], sets: list[str]
    ) -> Statement:
        """Add the function and return what writes its call; `sets` are ``name = value`` pairs."""
        name = f"{self._fn}_{suffix}"
        head = [*indices.split(), *given]
        names = [entry.split(" = ")[0] for entry in sets]
        if sets:
            lines = [*lines, "return " + ", ".join(entry.split(" = ")[1] for entry in sets)]
        self._texts.append(define(name, head, self._parameters, lines))
        rest = ", ".join([*given, *([self._arguments] if self._arguments else [])])

        def call(*places: str) -> str:
            arguments = ", ".join(places) + (f", {rest}" if rest else "")
            target = f"{', '.join(names)} = " if names else ""
            return f"{target}{name}({arguments})"

        return call

    def _known(self, level: int, *, row: bool = False) -> dict[Pair, str]:
        """Return the names of what is known when `level` passes are over."""
        return self._due.known(level, "s{0}", "" if row else "h{0}")

    def _load(self) -> Statement:
        due = self._due
        held = {pair: at for pair, at in due.held.items() if due.level[pair] == 0}
        if not held:
            return _nothing
        slots = self._known(0, row=True)
        scope = StatementScope(given=slots)
        sets = [f"h{at} = {self._emitter.value(scope, pair)}" for pair, at in held.items()]
        given = sorted(slots.values(), key=_number)
        return self._statement("load", "o c live inside", given, scope.lines, sets)

    def _pass(self, at: int) -> TritonRowPass:
        due = self._due
        given = self._known(at)
        scope = StatementScope(given=given)
        values = [self._emitter.value(scope, pair) for pair in due.stages[at]]
        sets = [f"v{number} = {value}" for number, value in enumerate(values)]
        sets += [f"h{number} = {scope.names[pair]}" for pair, number in due.entering(at).items()]
        names = sorted(dict.fromkeys(given.values()), key=_number)
        value = self._statement(f"v{at}", "o c live inside", names, scope.lines, sets)
        reducers = tuple(self._reducer(number, pair) for number, pair in enumerate(due.steps[at]))
        return TritonRowPass(reducers=reducers, value=value, after=self._after(at + 1))

    def _reducer(self, number: int, pair: Pair) -> Reducer:
        reduction = self._emitter.known[pair[0]].reduction
        assert reduction is not None
        count = ""
        if reduction.mean:
            count = self._emitter.extent.product(self._emitter.loops.inner)
            count += f" - {reduction.correction:g}" if reduction.correction else ""
        slot = f"s{self._due.slots[pair]}"
        shift = pair == self._top
        return Reducer(value=f"v{number}", slot=slot, reduction=reduction, count=count, shift=shift)

    def _after(self, level: int) -> Statement:
        """The row values that are known once `level` passes are over."""
        due = self._due
        fresh = due.fresh(self._emitter, level)
        if not fresh:
            return _nothing
        given = {pair: name for pair, name in self._known(level, row=True).items()
                 if pair not in fresh}  # fmt: skip
        scope = StatementScope(given=given, row=True)
        sets = [f"s{at} = {self._emitter.value(scope, pair)}" for pair, at in fresh.items()]
        names = sorted(given.values(), key=_number)
        return self._statement(f"a{level}", "o live", names, scope.lines, sets)

    def _finish(self) -> Statement:
        due = self._due
        given = self._known(len(due.steps))
        scope = StatementScope(given=given)
        stores = []
        for pair in due.full:
            value = self._emitter.value(scope, pair)
            stores.append(self._emitter.store(pair, value, row=False, stream=self._stream))
        names = sorted(dict.fromkeys(given.values()), key=_number)
        return self._statement("finish", "o c live inside", names, [*scope.lines, *stores], [])

    def _rowout(self) -> Statement:
        due = self._due
        given = self._known(len(due.steps), row=True)
        scope = StatementScope(given=given, row=True)
        stores = []
        for pair in due.rows:
            value = self._emitter.value(scope, pair)
            stores.append(self._emitter.store(pair, value, row=True, stream=False))
        names = sorted(given.values(), key=_number)
        return self._statement("rowout", "o live", names, [*scope.lines, *stores], [])


def _number(name: str) -> tuple[str, int]:
    return name[0], int(name[1:])


def _nothing(*_: str) -> str:
    """The statement that has nothing to do."""
    return "pass"
