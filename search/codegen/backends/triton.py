"""What a GPU recipe's template is given: helper functions as calls, host lines, reducers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from search.codegen.backends.expressions import Emitter, Pair, Scope
from search.codegen.backends.schedule import Schedule
from search.codegen.ir import Node

Statement = Callable[..., str]
_JOINS = {"Sum": "{0} + {1}", "Prod": "{0} * {1}", "Max": "vmax({0}, {1})", "Min": "vmin({0}, {1})"}
_IDENTITIES = {"Sum": "0.0", "Prod": "1.0", "Max": 'float("-inf")', "Min": 'float("inf")'}
_REDUCES = {
    "Sum": "tl.sum({0}, {1})",
    "Prod": "tl.reduce({0}, {1}, vtimes)",
    "Max": "tl.reduce({0}, {1}, vmax)",
    "Min": "tl.reduce({0}, {1}, vmin)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reducer:
    """One value that a pass reduces.

    Attributes:
        value: name of the elements to reduce, as the pass's statement sets it.
        slot: name under which later statements expect the result.
        kind: ``Sum``, ``Max``, ``Min``, ``Prod``, ``Mean``, or ``Mean:1`` with one less in the divisor.
        count: text of the divisor of a mean, else empty.
        shift: a maximum that only shifts exponentials: not a number shows in their sum anyway.
    """

    value: str
    slot: str
    kind: str
    count: str
    shift: bool

    @property
    def _base(self) -> str:
        return "Sum" if self.kind.startswith("Mean") else self.kind

    @property
    def identity(self) -> str:
        """What leaves the result as it is."""
        return _IDENTITIES[self._base]

    def masked(self, mask: str) -> str:
        """Return the elements with what lies outside made neutral."""
        return f"tl.where({mask}, {self.value}, {self.identity})"

    def reduce(self, tile: str, axis: int) -> str:
        """Return the reduction of `tile` along `axis`."""
        if self.shift:
            return f"tl.max({tile}, {axis})"
        return _REDUCES[self._base].format(tile, axis)

    def join(self, one: str, other: str) -> str:
        """Return two partial results as one."""
        return _JOINS[self._base].format(one, other)

    def complete(self, total: str) -> str:
        """Return the result: a mean's sum over its count."""
        return f"{total} / ({self.count})" if self.count else total


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
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
    passes: tuple[Pass, ...]
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
        emitter: Emitter,
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
        due = self._due
        names = {pair: f"s{at}" for pair, at in due.slots.items() if due.level[pair] <= level}
        if not row:
            # What is known beforehand is loaded; what a pass computes is held from the next on.
            names |= {
                pair: f"h{at}"
                for pair, at in due.held.items()
                if due.first[pair] < level or due.level[pair] == 0
            }
        return names

    def _load(self) -> Statement:
        due = self._due
        held = {pair: at for pair, at in due.held.items() if due.level[pair] == 0}
        if not held:
            return _nothing
        slots = self._known(0, row=True)
        scope = Scope(given=slots)
        sets = [f"h{at} = {self._emitter.value(scope, pair)}" for pair, at in held.items()]
        given = sorted(slots.values(), key=_number)
        return self._statement("load", "o c live inside", given, scope.lines, sets)

    def _pass(self, at: int) -> Pass:
        due = self._due
        given = self._known(at)
        scope = Scope(given=given)
        values = [self._emitter.value(scope, pair) for pair in due.stages[at]]
        sets = [f"v{number} = {value}" for number, value in enumerate(values)]
        sets += [
            f"h{number} = {scope.names[pair]}"
            for pair, number in due.held.items()
            if due.level[pair] > 0 and due.first[pair] == at
        ]
        names = sorted(dict.fromkeys(given.values()), key=_number)
        value = self._statement(f"v{at}", "o c live inside", names, scope.lines, sets)
        reducers = tuple(self._reducer(number, pair) for number, pair in enumerate(due.steps[at]))
        return Pass(reducers=reducers, value=value, after=self._after(at + 1))

    def _reducer(self, number: int, pair: Pair) -> Reducer:
        kind = self._emitter.known[pair[0]].form
        count = ""
        if kind.startswith("Mean"):
            count = self._emitter.extent.product(self._emitter.frame.inner)
            correction = kind.partition(":")[2]
            count += f" - {correction}" if correction else ""
        slot = f"s{self._due.slots[pair]}"
        shift = pair == self._top
        return Reducer(value=f"v{number}", slot=slot, kind=kind, count=count, shift=shift)

    def _after(self, level: int) -> Statement:
        """The row values that are known once `level` passes are over."""
        due = self._due
        fresh = {
            pair: at
            for pair, at in due.slots.items()
            if due.level[pair] == level and not self._emitter.reduces(pair)
        }
        if not fresh:
            return _nothing
        given = {pair: name for pair, name in self._known(level, row=True).items()
                 if pair not in fresh}  # fmt: skip
        scope = Scope(given=given, row=True)
        sets = [f"s{at} = {self._emitter.value(scope, pair)}" for pair, at in fresh.items()]
        names = sorted(given.values(), key=_number)
        return self._statement(f"a{level}", "o live", names, scope.lines, sets)

    def _finish(self) -> Statement:
        due = self._due
        given = self._known(len(due.steps))
        scope = Scope(given=given)
        stores = []
        for pair in due.full:
            value = self._emitter.value(scope, pair)
            stores.append(self._emitter.store(pair, value, row=False, stream=self._stream))
        names = sorted(dict.fromkeys(given.values()), key=_number)
        return self._statement("finish", "o c live inside", names, [*scope.lines, *stores], [])

    def _rowout(self) -> Statement:
        due = self._due
        given = self._known(len(due.steps), row=True)
        scope = Scope(given=given, row=True)
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


def shifted(known: Mapping[str, Node], due: Schedule) -> int | None:
    """Return which reduction of the first pass is a softmax's maximum, None where there is none.

    The second pass must be the sum of the exponentials that it shifts.
    """
    if len(due.steps) != 2 or len(due.steps[1]) != 1:
        return None
    ((total, _),) = due.steps[1]
    power = known[known[total].operands[0]]
    if known[total].form != "Sum" or power.form != "vexp({0})":
        return None
    difference = known[power.operands[0]]
    for at, (highest, _) in enumerate(due.steps[0]):
        pair = (known[highest].operands[0], highest)
        if known[highest].form == "Max" and difference.operands == pair:
            return at if difference.form == "{0} - {1}" else None
    return None


def online(known: Mapping[str, Node], due: Schedule) -> bool:
    """Whether the passes are those of a softmax: maximum, then exponentials shifted by it."""
    return shifted(known, due) == 0 and len(due.steps[0]) == 1


def moments(known: Mapping[str, Node], due: Schedule) -> bool:
    """Whether the passes are a mean and the mean of squared differences from it."""
    if len(due.steps) != 2 or any(len(step) != 1 for step in due.steps):
        return False
    (mean,), (spread,) = due.steps
    kinds = (known[mean[0]].form, known[spread[0]].form.partition(":")[0])
    square = known[known[spread[0]].operands[0]]
    if kinds != ("Mean", "Mean") or square.form != "{0} * {0}":
        return False
    centred = known[square.operands[0]]
    source = known[mean[0]].operands[0]
    return centred.form == "{0} - {1}" and centred.operands == (source, mean[0])
