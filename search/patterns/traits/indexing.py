"""Forms of look-ups, scatters, selections, layouts and loops."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from search.patterns.families import argument, topic
from search.patterns.flow import Flow
from search.patterns.source import ReferenceText

_LOOKUPS = {
    "embedding",
    "embedding_bag",
    "index_select",
    "index",
    "gather",
    "take",
    "take_along_dim",
}
_SCATTERS = {"index_add", "scatter_add", "index_put", "scatter", "scatter_reduce", "index_reduce", "segment_reduce"}  # fmt: skip
_ORDERS = {
    "sort",
    "argsort",
    "topk",
    "kthvalue",
    "median",
    "nanmedian",
    "quantile",
    "unique",
    "msort",
    "mode",
    "nanquantile",
}
_BYTES = 4  # of an element
_LARGE_OUTPUT = 16e6  # bytes, from which on fresh pages and stores past the caches count
_COMPARISONS = {"lt", "le", "gt", "ge"}
_SHORT = 6e6  # bytes an operator, below which its launch takes longer than its work
_PLACES = {"index_copy", "index_fill", "masked_scatter", "put", "slice_scatter", "select_scatter"}
_MOVES = {"flip", "roll", "rot90", "channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "cat", "stack", "repeat", "tile"}  # fmt: skip
_LINEAR_ALGEBRA = (
    "linalg_",
    "cholesky",
    "inverse",
    "lu_",
    "matrix_exp",
    "triangular_solve",
    "logdet",
)
_RANDOM = {
    "rand",
    "rand_like",
    "randn",
    "randn_like",
    "bernoulli",
    "dropout",
    "native_dropout",
    "uniform",
}
_CONSTANTS = {"ones", "ones_like", "new_ones", "full", "full_like", "scalar_tensor", "expand"}
_COUNTS = {"bincount", "histc", "histogram"}
_COPIES = {"contiguous", "clone", "reshape", "_reshape_copy"}


def indexing_traits(flow: Flow) -> Iterator[tuple[str, str]]:  # noqa: PLR0912 - a rule a branch
    """Yield traits of look-ups, scatters, selections and layouts with what shows them."""
    kinds = {flow.kind(one.name) for one in flow}
    for trait, names in (
        ("lookup", _LOOKUPS),
        ("scatter", _SCATTERS),
        ("placement", _PLACES),
        ("ordering", _ORDERS),
        ("random-numbers", _RANDOM),
        ("counting", _COUNTS),
    ):
        if trait == "random-numbers" and not _draws(flow):
            continue
        if kinds & names and (trait != "lookup" or _by_tensor(flow, kinds & names)):
            yield trait, ", ".join(sorted(kinds & names))
    for one in flow:
        if flow.kind(one.name) in _SCATTERS and _of_ones(flow, one.name):
            yield "counting", f"{one.name} of ones"
    for name, trait in (
        ("topk", "top-k"),
        ("median", "median"),
        ("kthvalue", "median"),
        ("quantile", "median"),
        ("nanquantile", "median"),
        ("nanmedian", "median"),
    ):
        if name in kinds:
            yield trait, name
    if "one_hot" in kinds:
        yield "one-hot", "one_hot"
    yield from _summed_lookup(flow)
    yield from _further(flow)
    yield from _copies(flow)
    yield from _windows(flow)
    if "searchsorted" in kinds or "bucketize" in kinds:
        yield "search-in-sorted", "searchsorted"
    counted = [one for one in flow if one.shape and topic(one) is not None]
    if len(counted) >= 4:
        yield "several-operators", f"{len(counted)} of them"
    moved = sum(_BYTES * flow.sizes[one.name] for one in counted)
    if len(counted) >= 3 and moved <= _SHORT * len(counted):
        yield "short-operators", f"{moved / len(counted) / 1e6:.1f} MB an operator"
    elementwise = [one for one in flow if not flow.step(one.name) and one.shape]
    computed = [one for one in elementwise if flow.kind(one.name) not in _COPIES]
    if not any(flow.step(one.name) for one in flow) and len(computed) >= 1:
        yield "elementwise-only", f"{len(computed)} operators"
    if len(list(flow)) >= 30:
        yield "many-operators", f"{len(list(flow))} of them"


def _further(flow: Flow) -> Iterator[tuple[str, str]]:  # noqa: PLR0912 - a rule a branch
    for one in flow:
        kind = flow.kind(one.name)
        if kind in {"col2im", "fold"}:
            yield "overlap-add", one.name
        elif kind.startswith("max_unpool"):
            yield "unpooling", one.name
        elif kind in {"pad", "constant_pad_nd"} or kind.startswith(("reflection_pad", "replication_pad")):  # fmt: skip
            if not flow.is_small(one.name):
                yield "padding", one.name
        elif kind.startswith("fft_") or kind in {"stft", "istft"}:
            yield "fourier-transform", one.name
        elif kind in {"_sparse_mm", "sparse_mm"} or (kind == "sparse_coo_tensor"):
            yield "sparse-operand", one.name
        elif kind.startswith(_LINEAR_ALGEBRA) and topic(one) == "matmul":
            yield "linear-algebra", kind
        elif kind in {"tril", "triu"} and min(one.shape[-2:], default=0) >= 64:
            if any(name not in flow.values for name in map(flow.source, flow.inputs[one.name])):
                yield "triangle", one.name
        elif kind in _COMPARISONS and _of_lengths(flow, one.name):
            yield "length-mask", one.name
    yield from _all_pairs(flow)
    yield from _repeated(flow)
    written = max((_BYTES * prod(flow.shape(name)) for name in flow.graph.outputs), default=0)
    if written >= _LARGE_OUTPUT:
        yield "large-output", f"{written / 1e6:.0f} MB"
    odd = [one for one in flow if one.shape and one.shape[-1] > 16 and one.shape[-1] % 16]
    if odd and 2 * len(odd) > len([one for one in flow if one.shape and one.shape[-1] > 16]):
        yield "odd-extent", f"{odd[0].name} has rows of {odd[0].shape[-1]}"
    computed = {flow.kind(one.name) for one in flow if topic(one) is not None and one.shape}
    if computed and computed <= _MOVES | _COPIES:
        yield "rearrangement", ", ".join(sorted(computed))


def _of_lengths(flow: Flow, name: str) -> bool:
    """Say whether positions are compared with whole numbers that are given: a mask of padding."""
    origins = [flow.source(one) for one in flow.inputs[name]]
    given = [flow.values[one] for one in origins if one in flow.values]
    counted = any(flow.kind(one) == "arange" for one in origins) or len(given) == 2
    return counted and any(one.kind == "input" and one.dtype in {"int64", "int32"} for one in given)


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


def _all_pairs(flow: Flow) -> Iterator[tuple[str, str]]:
    """An elementwise operator whose result is far larger than both of its operands."""
    for one in flow:
        if flow.step(one.name) or topic(one) is None or len(flow.inputs[one.name]) != 2:
            continue
        taken = [prod(flow.shape(name)) for name in flow.inputs[one.name]]
        if (
            len(one.shape) >= 2
            and prod(one.shape) >= 16 * max(taken)
            and not flow.is_small(one.name)
        ):
            yield "all-pairs", f"{one.name} has {'x'.join(map(str, one.shape))}"


def _draws(flow: Flow) -> bool:
    """Say whether random numbers are drawn: a dropout that is evaluated draws none."""
    return any(
        argument(one, "train") is not False and argument(one, "p") != 0
        for one in flow.named(*_RANDOM)
    )


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


def _of_ones(flow: Flow, name: str) -> bool:
    """Say whether what is scattered is a constant, so that it counts."""
    last = flow.inputs[name][-1:]
    return any(flow.kind(flow.origin(one)) in _CONSTANTS for one in last)


def _by_tensor(flow: Flow, names: set[str]) -> bool:
    """Say whether a look-up goes by a tensor of indices and not by a constant."""
    return any(len(flow.inputs[one.name]) > 1 for one in flow if flow.kind(one.name) in names)


def _summed_lookup(flow: Flow) -> Iterator[tuple[str, str]]:
    for one in flow:
        if flow.kind(one.name) == "embedding_bag":
            yield "summed-lookup", one.name
        if flow.kind(one.name) in _LOOKUPS:
            for name in _ahead(flow, one.name, 3):
                if flow.kind(name) in {"sum", "mean", "amax", "bmm", "matmul"}:
                    yield "summed-lookup", f"{one.name}, {name}"
                    return


def _ahead(flow: Flow, name: str, depth: int) -> list[str]:
    found: list[str] = []
    waiting = [name]
    for _ in range(depth):
        waiting = [taker for one in waiting for taker in flow.takers.get(one, ())]
        found += waiting
    return found


def _copies(flow: Flow) -> Iterator[tuple[str, str]]:
    for one in flow.named(*_COPIES):
        behind = flow.inputs[one.name][:1]
        if (
            behind
            and flow.kind(behind[0]) in {"permute", "transpose", "movedim"}
            and prod(one.shape) > 4096
        ):
            yield "copy-in-another-layout", one.name
            return
    for name in flow.graph.outputs:
        if flow.kind(name) in {"permute", "transpose", "movedim", "t"}:
            yield "copy-in-another-layout", f"{name} is returned"


def loop_traits(flow: Flow, text: ReferenceText) -> Iterator[tuple[str, str]]:
    """Yield traits of the loops that the text has, with what shows them."""
    for loop in text.loops:
        state = ", ".join(loop.state[:3])
        if loop.state and loop.indexed:
            yield "recurrence", f"{state} from step to step, line {loop.line}"
            if any(flow.steps("matmul")):
                yield "recurrence-with-products", f"line {loop.line}"
            else:
                yield "elementwise-recurrence", f"line {loop.line}"
        elif loop.state:
            yield "iteration", f"{state} from turn to turn, line {loop.line}"
        elif loop.indexed:
            yield "independent-loop", f"line {loop.line}"
