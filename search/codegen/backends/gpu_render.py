"""One segment and one recipe make one kernel in Triton with the host function that launches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from search.codegen.access_analysis import Walk, walk
from search.codegen.attention import scored
from search.codegen.backends.cuda import (
    CudaEmitter,
    CudaParts,
    cuda_function,
    cuda_rows,
    declarations,
)
from search.codegen.backends.expressions import Frame, StatementScope, frame_of_plane, frame_of_rows
from search.codegen.backends.prelude import cuda_prelude
from search.codegen.backends.schedule import Scheduler
from search.codegen.backends.symbolic_sizes import Extent, Seen, count, reshaped
from search.codegen.backends.triton import Parts, PartsWriter, TritonEmitter, define
from search.codegen.ir import Shape
from search.codegen.iteration_space import Access, make_space
from search.codegen.library import RecipeCard, Value
from search.codegen.loop_layout import layout
from search.codegen.lower import LoweredProgram
from search.codegen.partition import plane_borders
from search.codegen.segments import ATTENTION, INNER, Segment

Call = Callable[..., str]


@dataclass(frozen=True, kw_only=True)
class Signature:
    """How tensors and sizes reach a kernel.

    Attributes:
        tensors: parameters of the host function.
        params: parameters of a kernel: pointers, then the sizes that its functions need.
        args: the same as a kernel passes them on.
        launch: the same at launch.
        measure: host statements that set the sizes and allocate the results, indented.
        results: what the host function returns.
        source: host expression of the shape that a pooling or a scan reads; empty elsewhere.
        parameters: numbers of the tensors that the model owns.
    """

    tensors: str
    params: str
    args: str
    launch: str
    measure: str
    results: str
    source: str
    parameters: frozenset[int]

    def fixed(self, number: int) -> bool:
        """Whether tensor `number` is a parameter or a buffer of the model."""
        return number in self.parameters


class _Painter:
    """Collects what one segment's template is given."""

    def __init__(self, program: LoweredProgram, part: Segment, fn: str, *, cuda: bool) -> None:
        self.program = program
        self.cuda = cuda
        self.part = part
        self.fn = fn
        self.texts: list[str] = []
        self.lines: list[str] = []
        self.extents: list[Extent] = []

    def seen(self, found: Walk) -> list[Seen]:
        """Return the tensors that a walk reads, as the host function sees their shapes."""
        inputs = {name: at for at, name in enumerate(self.part.inputs)}
        listed = [
            Seen(text=f"t{inputs[name]}.shape", shape=self.program.nodes[name].shape, access=access)
            for name, access in sorted(found.sources)
            if name in inputs
        ]
        # Activations first: their shapes say the batch.
        return sorted(listed, key=lambda tensor: (-sum(map(bool, tensor.access)), tensor.text))

    def extent(self, found: Walk, prefix: str, more: Sequence[Seen] = ()) -> Extent:
        """Return the sizes of a walk's space and add the host lines that set them."""
        extent = Extent(found.space, [*more, *self.seen(found)], prefix)
        self.extents.append(extent)
        self.lines += extent.lines()
        return extent

    def emitter(self, found: Walk, frame: Frame, extent: Extent) -> TritonEmitter | CudaEmitter:
        """Return what writes expressions of a walk in the recipe's language."""
        if self.cuda:
            return CudaEmitter(self.program, self.part, found, frame)
        return TritonEmitter(self.program.nodes, found, frame, extent, self.part.inputs)

    def allocate(self, number: int, shape: str) -> None:
        """Add the host line that makes result `number`."""
        dtype = self.program.nodes[self.part.outputs[number]].dtype
        kind = f"dtype=torch.{dtype}, device=t0.device"
        self.lines.append(f"y{number} = torch.empty({shape}, {kind})")

    def signature(self, source: str = "") -> Signature:
        """Return the signature once every part is known."""
        names = [name for extent in self.extents for name in extent.names]
        inputs, outputs = len(self.part.inputs), len(self.part.outputs)
        pointers = [f"in{at}" for at in range(inputs)] + [f"out{at}" for at in range(outputs)]
        given = [f"t{at}" for at in range(inputs)] + [f"y{at}" for at in range(outputs)]
        kinds = {value.name: value.kind for value in self.program.graph.values}
        fixed = {
            at
            for at, name in enumerate(self.part.inputs)
            if kinds.get(name) in ("parameter", "buffer")
        }
        return Signature(
            # Who reads nothing is told by a tensor where to write.
            tensors=", ".join(f"t{at}" for at in range(inputs or 1)),
            params=", ".join([*pointers, *(f"{name}: tl.constexpr" for name in names)]),
            args=", ".join([*pointers, *names]),
            launch=", ".join([*given, *names]),
            measure="\n".join(f"    {line}" for line in self.lines),
            results="(" + ", ".join(f"y{at}" for at in range(outputs)) + ",)",
            source=source,
            parameters=frozenset(fixed),
        )


def context(
    program: LoweredProgram, part: Segment, card: RecipeCard, knobs: Mapping[str, Value], fn: str
) -> tuple[dict[str, object], str]:
    """Return what the template of `card` is given for `part`, and the functions that it calls.

    Raises:
        Misfit: the recipe's language cannot express the part.
    """
    painter = _Painter(program, part, fn, cuda="cuda" in card.scope.language)
    if part.pattern in ("pointwise", "rows"):
        return _rows(painter, knobs)
    if part.pattern in INNER:
        return _inner(painter)
    if part.pattern == ATTENTION:
        return _attention(painter)
    return _product(painter)


def _attention(painter: _Painter) -> tuple[dict[str, object], str]:
    """An attention: what becomes of the first product's elements, and of the last one's."""
    program, part = painter.program, painter.part
    assert part.anchor is not None
    first, own, taken = scored(program, part)
    functions: dict[str, _Function] = {}
    if own:
        functions["scores"] = _tail(painter, own, first, "scored", taken, "scores")
    if part.post:
        last = _last(program, part, part.post)
        functions["epilogue"] = _tail(painter, part.post, part.anchor, "shape", last, "epilogue")
    painter.allocate(0, reshaped("shape", program.nodes[part.anchor].shape, _result(program, part)))
    return _finished(painter, functions, "")


def _rows(painter: _Painter, knobs: Mapping[str, Value]) -> tuple[dict[str, object], str]:
    program, part = painter.program, painter.part
    found = walk(program.nodes, part.nodes, part.outputs)
    space = found.space
    if part.pattern == "rows":
        frame = frame_of_rows(space)
    elif knobs.get("flat", False):
        frame = Frame(space=space, outer=(), inner=tuple(range(len(space.sizes))))
    else:
        shape = layout(found)
        frame = Frame(space=space, outer=shape.outer, inner=(*shape.middle, *shape.lanes))
    extent = painter.extent(found, "D")
    painter.lines += [
        f"ROWS = {extent.product(frame.outer)}",
        f"COLS = {extent.product(frame.inner)}",
    ]
    for at, name in enumerate(part.outputs):
        painter.allocate(at, extent.shape(program.nodes[name].shape, found.roots[name]))
    signature = painter.signature()
    d = SimpleNamespace(**_row_sizes(part, found, frame))
    given = {name: getattr(signature, name) for name in _FIELDS}
    if painter.cuda:
        written, more = cuda_rows(program, part, found, painter.fn, knobs)
        p = SimpleNamespace(**given, fixed=signature.fixed, **_fields(written), **more)
        return {"d": d, "p": p, "prelude": cuda_prelude()}, ""
    emitter = TritonEmitter(program.nodes, found, frame, extent, part.inputs, part.outputs)
    due = Scheduler(emitter, keep=bool(knobs.get("keep", False))).run()
    parts = PartsWriter(
        emitter,
        due,
        painter.fn,
        signature.params,
        signature.args,
        stream=bool(knobs.get("stream", False)),
    ).build()
    p = SimpleNamespace(**given, fixed=signature.fixed, **_fields(parts))
    return {"d": d, "p": p}, parts.text


def _row_sizes(part: Segment, found: Walk, frame: Frame) -> dict[str, int]:
    sizes, last = found.space.sizes, found.space.reduced[1]
    columns = bool(frame.inner) and last < len(sizes) and part.pattern == "rows"
    return {
        "rows": count(sizes, frame.outer),
        "cols": count(sizes, frame.inner),
        "columns": int(columns),
        "inner": count(sizes, range(last, len(sizes))) if columns else 1,
        "reads": len(found.sources),
        "writes": len(part.outputs),
    }


def _fields(parts: Parts | CudaParts) -> dict[str, object]:
    return {name: getattr(parts, name) for name in parts.__dataclass_fields__}


_FIELDS = ("tensors", "params", "args", "launch", "measure", "results", "source")


@dataclass(frozen=True, kw_only=True)
class _Function:
    """An inlined function of one value or position, not yet written."""

    name: str
    emitter: TritonEmitter | CudaEmitter
    result: tuple[str, Access]
    given: Mapping[tuple[str, Access], str]

    def text(self, params: str) -> str:
        """Return its definition."""
        if isinstance(self.emitter, CudaEmitter):
            return cuda_function(self.name, self.emitter, self.result, self.given)
        scope = StatementScope(given=self.given)
        value = self.emitter.value(scope, self.result)
        head = [*self.given.values(), "o", "c", "live", "inside"]
        return define(self.name, head, params, [*scope.lines, f"return {value}"])

    def call(self, args: str) -> Call:
        """Return what renders a call at a value, if it takes one, its row and column and their masks.

        One mask for both has the shape of all, which the row and the column then need as well.
        """

        def render(*places: str) -> str:
            *value, row, col, live, inside = places
            if len(value) < len(self.given):
                value, row, col, mask = [row], col, live, inside
                row, col, live = f"vwide({row}, {mask})", f"vwide({col}, {mask})", mask
            return f"{self.name}({', '.join([*value, row, col, live, inside])}, {args})"

        return render


def _cuda(
    painter: _Painter,
    signature: Signature,
    functions: Mapping[str, _Function],
    texts: Sequence[str],
    before: str,
) -> tuple[dict[str, object], str]:
    """What a template in CUDA C++ is given: functions by name, one that does nothing among them."""
    given = {name: getattr(signature, name) for name in _FIELDS}
    same = f"{painter.fn}_same"
    empty = (
        f"template <class V> INL V {same}(V v, const float* const*, long, long) {{ return v; }}\n"
    )
    more = declarations(painter.program, painter.part)
    text = "\n".join([*texts, empty])
    p = SimpleNamespace(**given, fixed=signature.fixed, before=before, text=text, **more)
    names = dict.fromkeys(("epilogue", "post"), same)
    names |= {name: function.name for name, function in functions.items()}
    d = SimpleNamespace(**painter.part.dims)
    return {"d": d, "p": p, "prelude": cuda_prelude(), **names}, ""


def _identity(value: str, *_: str) -> str:
    """The call of a function that has nothing to do."""
    return value


def _tail(
    painter: _Painter, nodes: tuple[str, ...], tip: str, text: str, result: str, name: str
) -> _Function:
    """The function that is applied to each value of `tip` before it is stored.

    Args:
        text: host expression of the shape of `tip`.
        result: the node that it computes.
    """
    program, part = painter.program, painter.part
    shape = program.nodes[tip].shape
    borders = plane_borders(part.pattern, shape, part.dims)
    found = walk(program.nodes, [*nodes, tip], [result], borders)
    at = Seen(text=text, shape=shape, access=_access_of(found, tip))
    extent = painter.extent(found, name[0].upper(), [at])
    emitter = painter.emitter(found, frame_of_plane(found.space, borders), extent)
    full = found.space.full
    return _Function(
        name=f"{painter.fn}_{name}",
        emitter=emitter,
        result=(result, full),
        given={(tip, full): "v"},
    )


def _access_of(found: Walk, name: str) -> Access:
    return next((access for node, access in found.uses if node == name), found.space.full)


def _last(program: LoweredProgram, part: Segment, nodes: tuple[str, ...]) -> str:
    inner = set(nodes)
    return next(
        n for n in reversed(nodes) if not set(program.users[n]) & inner or n in part.outputs
    )


def _product(painter: _Painter) -> tuple[dict[str, object], str]:
    """Convolutions and products: an epilogue, and what follows a pooling."""
    program, part = painter.program, painter.part
    assert part.anchor is not None
    functions: dict[str, _Function] = {}
    if part.nodes:
        last = (
            program.nodes[part.pool].operands[0] if part.pool else _last(program, part, part.nodes)
        )
        functions["epilogue"] = _tail(painter, part.nodes, part.anchor, "shape", last, "epilogue")
    tip = part.pool or part.anchor
    result = "pooled" if part.pool else "shape"
    if part.post:
        last = _last(program, part, part.post)
        functions["post"] = _tail(painter, part.post, tip, result, last, "post")
    painter.allocate(0, reshaped(result, program.nodes[tip].shape, _result(program, part)))
    return _finished(painter, functions, "")


def _result(program: LoweredProgram, part: Segment) -> Shape:
    return program.nodes[part.outputs[0]].shape


def _inner(painter: _Painter) -> tuple[dict[str, object], str]:
    """Poolings and scans: what they read on the way in, and what follows."""
    program, part = painter.program, painter.part
    assert part.anchor is not None
    source = program.nodes[part.anchor].operands[0]
    shape = program.nodes[source].shape
    borders = plane_borders(part.pattern, shape, part.dims)
    if part.nodes:
        found = walk(program.nodes, part.nodes, [source], borders)
    else:
        space = make_space((program.nodes[source],), program.nodes, borders)
        read = frozenset({(program.base(source), space.full)})
        found = Walk(space=space, roots={}, uses=read, sources=read)
    extent = painter.extent(found, "L")
    emitter = painter.emitter(found, frame_of_plane(found.space, borders), extent)
    functions = {
        "load": _Function(
            name=f"{painter.fn}_load",
            emitter=emitter,
            result=(source, found.space.full),
            given={},
        )
    }
    read_shape = extent.shape(shape, found.space.full)
    before = "\n".join(f"    {line}" for line in painter.lines)
    painter.lines = []
    if part.tail:
        last = _last(program, part, part.tail)
        functions["post"] = _tail(painter, part.tail, part.anchor, "shape", last, "post")
    for at, name in enumerate(part.outputs):
        wanted = program.nodes[name].shape
        text = reshaped("shape", program.nodes[part.anchor].shape, wanted)
        if part.pattern == "factor":  # a batch of any size, of matrices of a known one
            text = f"({', '.join(map(str, ('*source[:-2]', *wanted[len(shape) - 2 :])))},)"
        painter.allocate(at, text)
    return _finished(painter, functions, read_shape, before)


def _finished(
    painter: _Painter, functions: Mapping[str, _Function], source: str, before: str = ""
) -> tuple[dict[str, object], str]:
    signature = painter.signature(source)
    texts = [function.text(signature.params) for function in functions.values()]
    if painter.cuda:
        return _cuda(painter, signature, functions, texts, before)
    calls: dict[str, Call] = dict.fromkeys(("epilogue", "post", "scores"), _identity)
    calls |= {name: function.call(signature.args) for name, function in functions.items()}
    given = {name: getattr(signature, name) for name in _FIELDS}
    p = SimpleNamespace(**given, fixed=signature.fixed, before=before)
    return {"d": SimpleNamespace(**painter.part.dims), "p": p, **calls}, "\n\n".join(texts)
