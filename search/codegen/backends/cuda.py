"""CUDA C++ functions for the primitive nodes of a row kernel; a recipe's template writes the loops.

The sizes are constants of the text. A thread works on vectors ``V`` of neighbouring elements, four
floats or one, as `hardware_docs/recipes/prelude_cuda.hpp` has them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search.codegen.access_analysis import Walk
from search.codegen.backends.expressions import (
    C_TYPES,
    FLOATS,
    Emitter,
    Frame,
    Pair,
    StatementScope,
    c_lanes,
    c_pointer,
    frame_of_rows,
)
from search.codegen.backends.printers import CudaPrinter
from search.codegen.backends.schedule import Schedule, Scheduler, moments, online
from search.codegen.backends.symbolic_sizes import Extent
from search.codegen.iteration_space import Access, Misfit, Space
from search.codegen.library import Value
from search.codegen.lower import LoweredProgram
from search.codegen.segments import Segment
from search.strides import contiguous

_LANES = 4  # floats of the widest vector
_INPUTS = "const float* const* in, long o"


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaReducer:
    """One value that a pass reduces.

    Attributes:
        kind: the prelude's reducer.
        slot: its place in ``s[]``.
        divisor: what the sum of a mean is divided by, else 0.
    """

    kind: str
    slot: int
    divisor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaPass:
    """One walk along a row.

    Attributes:
        value: name of the function ``(in, o, c, s, h, v)`` that sets ``v[]``, what is reduced.
        after: name of the function ``(in, o, s)`` that sets further row values; may be empty.
    """

    reducers: tuple[CudaReducer, ...]
    value: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaParts:
    """What a template of pattern ``rows`` in CUDA C++ is given as ``p``.

    Attributes:
        text: the functions, to stand between the prelude and the kernel.
        before: name of the function ``(in, o, s)`` of row values before the first pass; may be empty.
        load: name of the function ``(in, o, c, s, h)`` that sets what several passes need; may be
            empty.
        columns: name of the function ``(in, c, g)`` that reads what is the same in every row; may be
            empty.
        finish: name of the function ``(in, out, o, c, s, h, g)`` that writes full results; may be empty.
        rowout: name of the function ``(in, out, o, s)`` that writes one result a row; may be empty.
        scalars: length of ``s[]``, at least 1.
        held: length of ``h[]``, at least 1.
        shared: length of ``g[]``, at least 1.
        copied: inputs by number that `load` only copies to ``h[]`` of the same place, as rows without
            gaps; -1 at a place that `load` computes.
        vector: neighbouring elements that a thread may take at once.
        online, moments: as in `Parts`, and nothing else is held that depends on the first pass.
        powers: where in ``h[]`` the exponentials of an online pass are held, -1 where they are not.
    """

    text: str
    passes: tuple[CudaPass, ...]
    before: str
    load: str
    columns: str
    finish: str
    rowout: str
    scalars: int
    held: int
    shared: int
    copied: tuple[int, ...]
    vector: int
    online: bool
    moments: bool
    powers: int


class Fixed(Extent):
    """The sizes of one space as numbers."""

    def __init__(self, space: Space) -> None:
        super().__init__(space, (), "")
        self._names = tuple(str(size) for size in space.sizes)

    def offset(self, access: Access, dims: Sequence[int], index: str) -> str:
        """Return the offset as a C++ expression; may be empty."""
        return super().offset(access, dims, index).replace("//", "/")


class CudaEmitter(Emitter[Frame]):
    """Writes expressions of one kernel's nodes in CUDA C++."""

    printer = CudaPrinter

    def __init__(self, program: LoweredProgram, part: Segment, found: Walk, frame: Frame) -> None:
        super().__init__(program.nodes, found, frame, part.inputs, part.outputs)
        self.extent = Fixed(found.space)

    def load(self, pair: Pair, scope: StatementScope) -> str:
        """Return the text that reads `pair` from memory."""
        name, access = pair
        dtype = self.known[name].dtype
        base = f"in[{self._inputs[name]}]"
        outer = self.extent.offset(access, self.loops.outer, "o")
        if dtype not in FLOATS:
            return c_lanes(dtype, base, self._lane(access, scope))
        base = c_pointer(dtype, base)
        start = f"{base} + {outer}" if outer else base
        step = 0 if scope.row else self.step(access)
        if step == 1:
            return f"ld<V>({start} + c)"
        inner = "" if scope.row else self.extent.offset(access, self.loops.inner, "c")
        if step == 0:
            return f"to<V>(ld<float>({start}{f' + {inner}' if inner else ''}))"
        lane = self.extent.offset(access, self.loops.inner, "(c + l)")
        return f"gather<V>({start}, [&](int l) {{ return {lane}; }})"

    def position(self, access: Access, scope: StatementScope) -> str:
        """Return the text of the positions that `access` counts, in lanes."""
        return f"ints<V>([&](int l) {{ return {self._lane(access, scope)}; }})"

    def _lane(self, access: Access, scope: StatementScope) -> str:
        """Return the offset of lane ``l``."""
        inner = () if scope.row else self.loops.inner
        outer = self.extent.offset(access, self.loops.outer, "o")
        parts = (outer, self.extent.offset(access, inner, "(c + l)"))
        return " + ".join(part for part in parts if part) or "0"

    def input_of(self, name: str) -> int:
        """Return the number of the input that `name` is, -1 where it is computed."""
        return self._inputs.get(name, -1)

    def step(self, access: Access) -> int | None:
        """Return the distance of a vector's neighbours, 0 or 1, None where it is neither."""
        inner = self.loops.inner
        sizes = [self.walk.space.sizes[dim] for dim in inner]
        strides = tuple(access[dim] for dim in inner)
        if strides == contiguous(sizes):
            return 1
        same = 1
        for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
            if stride:
                break
            same *= size
        return 0 if same % _LANES == 0 or same == math.prod(sizes) else None

    def store(self, pair: Pair, value: str, *, row: bool, stream: bool) -> str:
        """Return the statement that writes `value` to the result of `pair`."""
        name, access = pair
        parts = [self.extent.offset(access, self.loops.outer, "o")]
        if not row:
            parts.append(self.extent.offset(access, self.loops.inner, "c"))
        offset = " + ".join(part for part in parts if part) or "0"
        pointer = c_pointer(self.known[name].dtype, f"out[{self._outputs[name]}]", const=False)
        place = f"{pointer} + {offset}"
        hint = "" if row else f"<{'true' if stream else 'false'}>"
        return f"st{hint}({place}, to<V>({value}))"


def cuda_function(name: str, emitter: CudaEmitter, result: Pair, given: Mapping[Pair, str]) -> str:
    """Return a function of one value, if it is `given` one, at ``(o, c)``."""
    scope = StatementScope(given=given)
    value = emitter.value(scope, result)
    lines = "".join(f"  const auto {line};\n" for line in scope.lines)
    head = "".join(f"V {text}, " for text in given.values())
    return (
        f"template <class V> INL V {name}({head}{_INPUTS}, long c) {{\n"
        f"  (void)in; (void)o; (void)c;\n{lines}  return to<V>({value});\n}}\n"
    )


class CudaWriter:
    """Writes the functions of a row kernel.

    Args:
        fn: prefix of their names.
        stream: results go past the caches.

    Raises:
        Misfit: the reduction does not run along the last dimensions, or an input is not float32.
    """

    def __init__(self, emitter: CudaEmitter, due: Schedule, fn: str, *, stream: bool) -> None:
        self._emitter = emitter
        self._due = due
        self._fn = fn
        self._stream = stream
        self._texts: list[str] = []
        frame = emitter.loops
        self._columns = {
            pair: at
            for at, pair in enumerate(sorted(emitter.walk.sources - due.held.keys()))
            if frame.is_column(pair[1])
            and not frame.is_row(pair[1])
            and emitter.known[pair[0]].dtype in FLOATS
        }

    def build(self) -> CudaParts:
        """Return the functions by name."""
        emitter, due = self._emitter, self._due
        space = emitter.walk.space
        if space.reduced[1] != len(space.sizes) or space.reduced[0] == space.reduced[1]:
            raise Misfit
        kept = [emitter.known[name] for name, _ in (*due.held, *due.slots)]
        if any(node.mask or node.integer for node in kept):
            raise Misfit  # registers hold single precision
        before = self._after(0)
        load = self._load()
        passes = tuple(self._pass(at) for at in range(len(due.steps)))
        columns = self._shared()
        finish = self._stores("finish", due.full) if due.full else ""
        rowout = self._stores("rowout", due.rows) if due.rows else ""
        late = {pair: at for pair, at in due.held.items() if due.level[pair] > 0}
        powers = (
            next((at for pair, at in late.items() if pair in due.stages[1]), -1) if late else -1
        )
        return CudaParts(
            text="\n".join(self._texts),
            passes=passes,
            before=before,
            load=load,
            columns=columns,
            finish=finish,
            rowout=rowout,
            scalars=max(1, len(due.slots)),
            held=max(1, len(due.held)),
            shared=max(1, len(self._columns)),
            copied=tuple(self._copied(pair) for pair in due.held),
            vector=_LANES if space.depth % _LANES == 0 else 1,
            online=online(emitter.known, due) and len(late) == (powers >= 0),
            moments=moments(emitter.known, due) and not late,
            powers=powers,
        )

    def _copied(self, pair: Pair) -> int:
        whole = pair[1] == self._emitter.walk.space.full
        same = whole and self._emitter.known[pair[0]].dtype == "float32"
        return self._emitter.input_of(pair[0]) if same else -1

    def _function(self, suffix: str, head: str, lines: Sequence[str], *, row: bool = False) -> str:
        name = f"{self._fn}_{suffix}"
        opening = "typedef float V; " if row else ""
        template = "" if row else "template <class V> "
        body = "".join(f"  {line};\n" for line in lines)
        self._texts.append(
            f"{template}INL void {name}({head}) {{\n  {opening}(void)in;\n{body}}}\n"
        )
        return name

    def _lines(self, scope: StatementScope, ends: Sequence[str]) -> list[str]:
        return [*(f"const auto {line}" for line in scope.lines), *ends]

    def _known(self, level: int, *, row: bool = False) -> dict[Pair, str]:
        """Return the names of what is known when `level` passes are over."""
        return self._due.known(level, *(("s[{0}]",) if row else ("to<V>(s[{0}])", "h[{0}]")))

    def _load(self) -> str:
        due = self._due
        held = {pair: at for pair, at in due.held.items() if due.level[pair] == 0}
        if not held:
            return ""
        slots = {p: f"to<V>(s[{at}])" for p, at in due.slots.items() if due.level[p] == 0}
        scope = StatementScope(given=slots)
        ends = [f"h[{at}] = to<V>({self._emitter.value(scope, pair)})" for pair, at in held.items()]
        return self._function(
            "load", f"{_INPUTS}, long c, const float* s, V* h", self._lines(scope, ends)
        )

    def _shared(self) -> str:
        if not self._columns:
            return ""
        scope = StatementScope(given={})
        ends = [
            f"g[{at}] = {self._emitter.value(scope, pair)}" for pair, at in self._columns.items()
        ]
        head = _INPUTS.replace(", long o", ", long c, V* g")
        return self._function("columns", head, self._lines(scope, ends))

    def _pass(self, at: int) -> CudaPass:
        due = self._due
        scope = StatementScope(given=self._known(at))
        values = [self._emitter.value(scope, pair) for pair in due.stages[at]]
        ends = [f"v[{number}] = to<V>({value})" for number, value in enumerate(values)]
        ends += [f"h[{number}] = {scope.names[pair]}" for pair, number in due.entering(at).items()]
        head = f"{_INPUTS}, long c, const float* s, V* h, V* v"
        value = self._function(f"v{at}", head, self._lines(scope, ends))
        reducers = tuple(self._reducer(pair) for pair in due.steps[at])
        return CudaPass(reducers=reducers, value=value, after=self._after(at + 1))

    def _reducer(self, pair: Pair) -> CudaReducer:
        reduction = self._emitter.known[pair[0]].reduction
        assert reduction is not None
        depth = self._emitter.walk.space.depth
        divisor = depth - int(reduction.correction) if reduction.mean else 0
        if reduction.mean and divisor <= 0:
            raise Misfit
        return CudaReducer(kind=reduction.join, slot=self._due.slots[pair], divisor=divisor)

    def _after(self, level: int) -> str:
        due = self._due
        fresh = due.fresh(self._emitter, level)
        if not fresh:
            return ""
        known = self._known(level, row=True)
        scope = StatementScope(
            given={p: name for p, name in known.items() if p not in fresh}, row=True
        )
        ends = [f"s[{at}] = {self._emitter.value(scope, pair)}" for pair, at in fresh.items()]
        return self._function(
            f"a{level}", f"{_INPUTS}, float* s", self._lines(scope, ends), row=True
        )

    def _stores(self, suffix: str, pairs: Sequence[Pair]) -> str:
        row = suffix == "rowout"
        given = self._known(len(self._due.steps), row=row)
        if not row:
            given |= {pair: f"g[{at}]" for pair, at in self._columns.items()}
        scope = StatementScope(given=given, row=row)
        ends = [
            self._emitter.store(
                pair, self._emitter.value(scope, pair), row=row, stream=self._stream
            )
            for pair in pairs
        ]
        head = _INPUTS.replace("in,", "in, float* const* out,")
        head += ", const float* s" if row else ", long c, const float* s, const V* h, const V* g"
        return self._function(suffix, head, self._lines(scope, ends), row=row)


def cuda_rows(
    program: LoweredProgram, part: Segment, found: Walk, fn: str, knobs: Mapping[str, Value]
) -> tuple[CudaParts, dict[str, str]]:
    """Return the functions of a row kernel in CUDA C++, and how its tensors are declared and passed.

    Raises:
        Misfit: as `CudaWriter`.
    """
    emitter = CudaEmitter(program, part, found, frame_of_rows(found.space))
    due = Scheduler(emitter, keep=bool(knobs.get("keep", False))).run()
    parts = CudaWriter(emitter, due, fn, stream=bool(knobs.get("stream", False))).build()
    return parts, declarations(program, part)


def declarations(program: LoweredProgram, part: Segment) -> dict[str, str]:
    """Return how the tensors of a kernel are declared, collected and passed."""
    inputs = [f"t{at}" for at in range(len(part.inputs))]
    outputs = [f"y{at}" for at in range(len(part.outputs))]
    kinds = [C_TYPES.get(program.nodes[name].dtype, "float") for name in part.inputs]
    results = [C_TYPES.get(program.nodes[name].dtype, "float") for name in part.outputs]
    pointers = [
        *(f"const {kind}* {name}" for kind, name in zip(kinds, inputs, strict=True)),
        *(f"{kind}* {name}" for kind, name in zip(results, outputs, strict=True)),
    ]
    return {
        "pointers": ", ".join(pointers),
        "ins": ", ".join(_as_floats("const float*", kinds, inputs)),
        "outs": ", ".join(_as_floats("float*", results, outputs)),
        "given": ", ".join([*inputs, *outputs]),
    }


def _as_floats(kind: str, given: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the C++ of tensors as pointers of one `kind`; who reads them says what they are."""
    return [f"({kind}){n}" if g != "float" else n for g, n in zip(given, names, strict=True)]
