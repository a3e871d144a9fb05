"""CUDA C++ functions for the primitive nodes of a row kernel; a recipe's template writes the loops.

The sizes are constants of the text. A thread works on vectors ``V`` of neighbouring elements, four
floats or one, as `hardware_docs/recipes/prelude_cuda.hpp` has them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from kb.config import shipped_docs
from search.codegen.access_analysis import Walk
from search.codegen.backends.expressions import Emitter, Pair, Scope, frame_of_rows
from search.codegen.backends.schedule import Schedule, Scheduler
from search.codegen.backends.symbolic_sizes import Extent
from search.codegen.backends.triton import moments, online
from search.codegen.fusion import Segment
from search.codegen.iteration_space import Access, Misfit, Space, contiguous
from search.codegen.library import Value
from search.codegen.lower import Program

_LANES = 4  # floats of the widest vector
_BUILTIN = re.compile(r"__builtin_(\w+)")
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


class CudaEmitter(Emitter):
    """Writes expressions of one kernel's nodes in CUDA C++."""

    def _compute(self, scope: Scope, pair: Pair) -> str:
        form = self.known[pair[0]].form
        if "INDEX" in form:
            raise Misfit  # positions are written for kernels that read sizes at run time
        text = form.format(*(self.value(scope, operand) for operand in self.below(pair)))
        return _BUILTIN.sub(r"\1", text)

    def _load(self, pair: Pair, scope: Scope) -> str:
        name, access = pair
        node = self.known[name]
        if node.integer or node.mask:
            raise Misfit
        base = f"in[{self._inputs[name]}]"
        outer = self.extent.offset(access, self.frame.outer, "o")
        start = f"{base} + {outer}" if outer else base
        step = 0 if scope.row else self.step(access)
        if step == 1:
            return f"ld<V>({start} + c)"
        inner = "" if scope.row else self.extent.offset(access, self.frame.inner, "c")
        if step == 0:
            return f"to<V>(ld<float>({start}{f' + {inner}' if inner else ''}))"
        lane = self.extent.offset(access, self.frame.inner, "(c + l)")
        return f"gather<V>({start}, [&](int l) {{ return {lane}; }})"

    def input_of(self, name: str) -> int:
        """Return the number of the input that `name` is, -1 where it is computed."""
        return self._inputs.get(name, -1)

    def step(self, access: Access) -> int | None:
        """Return the distance of a vector's neighbours, 0 or 1, None where it is neither."""
        inner = self.frame.inner
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
        offset = self.offset(access, row=row) or "0"
        place = f"out[{self._outputs[name]}] + {offset}"
        hint = "" if row else f"<{'true' if stream else 'false'}>"
        return f"st{hint}({place}, to<V>({value}))"


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
        frame = emitter.frame
        self._columns = {
            pair: at
            for at, pair in enumerate(sorted(emitter.walk.sources - due.held.keys()))
            if frame.is_column(pair[1]) and not frame.is_row(pair[1])
        }

    def build(self) -> CudaParts:
        """Return the functions by name."""
        emitter, due = self._emitter, self._due
        space = emitter.walk.space
        if space.reduced[1] != len(space.sizes) or space.reduced[0] == space.reduced[1]:
            raise Misfit
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
        return self._emitter.input_of(pair[0]) if whole else -1

    def _function(self, suffix: str, head: str, lines: Sequence[str], *, row: bool = False) -> str:
        name = f"{self._fn}_{suffix}"
        opening = "typedef float V; " if row else ""
        template = "" if row else "template <class V> "
        body = "".join(f"  {line};\n" for line in lines)
        self._texts.append(
            f"{template}INL void {name}({head}) {{\n  {opening}(void)in;\n{body}}}\n"
        )
        return name

    def _lines(self, scope: Scope, ends: Sequence[str]) -> list[str]:
        return [*(f"const auto {line}" for line in scope.lines), *ends]

    def _known(self, level: int, *, row: bool = False) -> dict[Pair, str]:
        """Return the names of what is known when `level` passes are over."""
        due = self._due
        slot = "s[{}]" if row else "to<V>(s[{}])"
        names = {p: slot.format(at) for p, at in due.slots.items() if due.level[p] <= level}
        if not row:
            names |= {
                pair: f"h[{at}]"
                for pair, at in due.held.items()
                if due.first[pair] < level or due.level[pair] == 0
            }
        return names

    def _load(self) -> str:
        due = self._due
        held = {pair: at for pair, at in due.held.items() if due.level[pair] == 0}
        if not held:
            return ""
        slots = {p: f"to<V>(s[{at}])" for p, at in due.slots.items() if due.level[p] == 0}
        scope = Scope(given=slots)
        ends = [f"h[{at}] = to<V>({self._emitter.value(scope, pair)})" for pair, at in held.items()]
        return self._function(
            "load", f"{_INPUTS}, long c, const float* s, V* h", self._lines(scope, ends)
        )

    def _shared(self) -> str:
        if not self._columns:
            return ""
        scope = Scope(given={})
        ends = [
            f"g[{at}] = {self._emitter.value(scope, pair)}" for pair, at in self._columns.items()
        ]
        head = _INPUTS.replace(", long o", ", long c, V* g")
        return self._function("columns", head, self._lines(scope, ends))

    def _pass(self, at: int) -> CudaPass:
        due = self._due
        scope = Scope(given=self._known(at))
        values = [self._emitter.value(scope, pair) for pair in due.stages[at]]
        ends = [f"v[{number}] = to<V>({value})" for number, value in enumerate(values)]
        ends += [
            f"h[{number}] = {scope.names[pair]}"
            for pair, number in due.held.items()
            if due.level[pair] > 0 and due.first[pair] == at
        ]
        head = f"{_INPUTS}, long c, const float* s, V* h, V* v"
        value = self._function(f"v{at}", head, self._lines(scope, ends))
        reducers = tuple(self._reducer(pair) for pair in due.steps[at])
        return CudaPass(reducers=reducers, value=value, after=self._after(at + 1))

    def _reducer(self, pair: Pair) -> CudaReducer:
        kind, _, correction = self._emitter.known[pair[0]].form.partition(":")
        mean = kind == "Mean"
        divisor = self._emitter.walk.space.depth - int(float(correction or 0)) if mean else 0
        if mean and divisor <= 0:
            raise Misfit
        return CudaReducer(
            kind="Sum" if mean else kind, slot=self._due.slots[pair], divisor=divisor
        )

    def _after(self, level: int) -> str:
        due = self._due
        fresh = {
            pair: at
            for pair, at in due.slots.items()
            if due.level[pair] == level and not self._emitter.reduces(pair)
        }
        if not fresh:
            return ""
        known = self._known(level, row=True)
        scope = Scope(given={p: name for p, name in known.items() if p not in fresh}, row=True)
        ends = [f"s[{at}] = {self._emitter.value(scope, pair)}" for pair, at in fresh.items()]
        return self._function(
            f"a{level}", f"{_INPUTS}, float* s", self._lines(scope, ends), row=True
        )

    def _stores(self, suffix: str, pairs: Sequence[Pair]) -> str:
        row = suffix == "rowout"
        given = self._known(len(self._due.steps), row=row)
        if not row:
            given |= {pair: f"g[{at}]" for pair, at in self._columns.items()}
        scope = Scope(given=given, row=row)
        ends = [
            self._emitter.store(
                pair, self._emitter.value(scope, pair), row=row, stream=self._stream
            )
            for pair in pairs
        ]
        head = _INPUTS.replace("in,", "in, float* const* out,")
        head += ", const float* s" if row else ", long c, const float* s, const V* h, const V* g"
        return self._function(suffix, head, self._lines(scope, ends), row=row)


@cache
def cuda_prelude() -> str:
    """Return the C++ that every CUDA kernel starts with."""
    return (shipped_docs() / "recipes" / "prelude_cuda.hpp").read_text(encoding="utf-8").strip()


def cuda_rows(
    program: Program, part: Segment, found: Walk, fn: str, knobs: Mapping[str, Value]
) -> tuple[CudaParts, dict[str, str]]:
    """Return the functions of a row kernel in CUDA C++, and how its tensors are declared and passed.

    Raises:
        Misfit: as `CudaWriter`.
    """
    frame, extent = frame_of_rows(found.space), Fixed(found.space)
    emitter = CudaEmitter(program.nodes, found, frame, extent, part.inputs, part.outputs)
    due = Scheduler(emitter, bool(knobs.get("keep", False))).run()
    parts = CudaWriter(emitter, due, fn, stream=bool(knobs.get("stream", False))).build()
    inputs = [f"t{at}" for at in range(len(part.inputs))]
    outputs = [f"y{at}" for at in range(len(part.outputs))]
    pointers = [
        *(f"const float* {name}" for name in inputs),
        *(f"float* {name}" for name in outputs),
    ]
    return parts, {
        "pointers": ", ".join(pointers),
        "ins": ", ".join(inputs),
        "outs": ", ".join(outputs),
        "given": ", ".join([*inputs, *outputs]),
    }
