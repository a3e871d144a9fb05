"""What a reference is made of as a whole: many or short operators, moves, masks, borders, repeated work."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from search.costs.graph import Operator
from search.patterns.families import topic
from search.patterns.flow import Flow
from search.patterns.traits.indexing import COPIES

_BYTES = 4  # of an element
_LARGE_OUTPUT = 16e6  # bytes, from which on fresh pages and stores past the caches count
_SHORT = 6e6  # bytes an operator, below which its launch takes longer than its work
_LANES = 16  # of the widest vectors
_PAIRS = 16  # times larger than its operands
_COMPARISONS = {"lt", "le", "gt", "ge"}
_MOVES = {"flip", "roll", "rot90", "channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "cat", "stack", "repeat", "tile"}  # fmt: skip
_LINEAR_ALGEBRA = (
    "linalg_", "cholesky", "inverse", "lu_", "matrix_exp", "triangular_solve", "logdet", "svd", "pinverse", "det", "slogdet", "qr",
    "geqrf", "ormqr",
)  # fmt: skip
_NAMED = {
    "col2im": "overlap-add",
    "max_unpool2d": "unpooling",
    "max_unpool3d": "unpooling",
    "stft": "fourier-transform",
    "istft": "fourier-transform",
    "_sparse_mm": "sparse-operand",
    "sparse_mm": "sparse-operand",
    "sparse_coo_tensor": "sparse-operand",
}
_PADS = ("pad", "constant_pad", "reflection_pad", "replication_pad")


def structure_traits(flow: Flow) -> Iterator[tuple[str, str]]:
    """Yield traits of the whole and of what stands between its steps, with what shows them."""
    for one in flow:
        yield from _of_one(flow, one)
    yield from _amounts(flow)
    yield from _extents(flow)
    yield from _windows(flow)
    yield from _all_pairs(flow)
    yield from _repeated(flow)


def _of_one(flow: Flow, one: Operator) -> Iterator[tuple[str, str]]:
    kind = flow.kind(one.name)
    if kind in _NAMED:
        yield _NAMED[kind], one.name
    elif kind.startswith("fft_"):
        yield "fourier-transform", one.name
    elif kind.startswith(_LINEAR_ALGEBRA) and topic(one) == "matmul":
        yield "linear-algebra", kind
    elif kind.startswith(_PADS) and not flow.is_small(one.name):
        yield "padding", one.name
    elif kind in {"tril", "triu"} and min(one.shape[-2:], default=0) >= 4 * _LANES:
        if any(name not in flow.values for name in map(flow.source, flow.inputs[one.name])):
            yield "triangle", one.name
    elif kind in _COMPARISONS and _of_lengths(flow, one.name):
        yield "length-mask", one.name


def _of_lengths(flow: Flow, name: str) -> bool:
    """Say whether positions are compared with whole numbers that are given: a mask of padding."""
    origins = [flow.source(one) for one in flow.inputs[name]]
    given = [flow.values[one] for one in origins if one in flow.values]
    counted = any(flow.kind(one) == "arange" for one in origins) or len(given) == 2
    return counted and any(one.kind == "input" and one.dtype in {"int64", "int32"} for one in given)


def _amounts(flow: Flow) -> Iterator[tuple[str, str]]:
    """How many operators there are, and how much they move."""
    counted = [one for one in flow if one.shape and topic(one) is not None]
    if len(counted) >= 4:
        yield "several-operators", f"{len(counted)} of them"
    moved = sum(_BYTES * flow.sizes[one.name] for one in counted)
    if len(counted) >= 3 and moved <= _SHORT * len(counted):
        yield "short-operators", f"{moved / len(counted) / 1e6:.1f} MB an operator"
    if len(flow.operators) >= 30:
        yield "many-operators", f"{len(flow.operators)} of them"
    if not any(flow.step(one.name) for one in flow):
        computed = [one for one in flow if one.shape and flow.kind(one.name) not in COPIES]
        if computed:
            yield "elementwise-only", f"{len(computed)} operators"
    kinds = {flow.kind(one.name) for one in counted}
    if kinds and kinds <= _MOVES | COPIES:
        yield "rearrangement", ", ".join(sorted(kinds))


def _extents(flow: Flow) -> Iterator[tuple[str, str]]:
    written = max((_BYTES * prod(flow.shape(name)) for name in flow.graph.outputs), default=0)
    if written >= _LARGE_OUTPUT:
        yield "large-output", f"{written / 1e6:.0f} MB"
    rows = [one for one in flow if one.shape and one.shape[-1] > _LANES]
    odd = [one for one in rows if one.shape[-1] % _LANES]
    if 2 * len(odd) > len(rows):
        yield "odd-extent", f"{odd[0].name} has rows of {odd[0].shape[-1]}"


def _windows(flow: Flow) -> Iterator[tuple[str, str]]:
    """Windows of one tensor: by unfolding, or as shifted slices that elementwise operators join."""
    for one in flow.named("unfold", "im2col", "as_strided"):
        yield "windows-by-unfolding", one.name
    for one in flow.named("roll"):
        yield "shifted-copies", one.name
    slices: dict[str, int] = {}
    for one in flow.named("slice", "narrow"):
        source = _uncut(flow, one.name)
        slices[source] = slices.get(source, 0) + 1
    if any(count >= 3 for count in slices.values()) and not any(flow.steps("matmul")):
        yield "shifted-copies", f"{max(slices.values())} slices of one tensor"


def _uncut(flow: Flow, name: str) -> str:
    """Return what a slice of slices was cut from."""
    while flow.kind(name) in {"slice", "narrow"}:
        name = flow.inputs[name][0]
    return name


def _all_pairs(flow: Flow) -> Iterator[tuple[str, str]]:
    """An elementwise operator whose result is far larger than both of its operands."""
    for one in flow:
        if flow.step(one.name) or topic(one) is None or len(flow.inputs[one.name]) != 2:
            continue
        taken = [prod(flow.shape(name)) for name in flow.inputs[one.name]]
        if (
            len(one.shape) >= 2
            and prod(one.shape) >= _PAIRS * max(taken)
            and not flow.is_small(one.name)
        ):
            yield "all-pairs", f"{one.name} has {'x'.join(map(str, one.shape))}"


def _repeated(flow: Flow) -> Iterator[tuple[str, str]]:
    """Operators that compute the same of the same operands."""
    seen: dict[object, str] = {}
    for one in flow:
        if topic(one) is None or not flow.inputs[one.name] or flow.is_small(one.name):
            continue
        way = (one.target, repr(one.args), repr(one.kwargs))
        if way in seen:
            yield "repeated-operator", f"{seen[way]} and {one.name}"
            return
        seen[way] = one.name
