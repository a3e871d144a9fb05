"""Forms of look-ups, scatters, selections, layouts and loops."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from search.patterns.families import argument
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
_NAMED = {
    "topk": "top-k",
    "median": "median",
    "nanmedian": "median",
    "kthvalue": "median",
    "quantile": "median",
    "nanquantile": "median",
    "one_hot": "one-hot",
    "searchsorted": "search-in-sorted",
    "bucketize": "search-in-sorted",
}
_PLACES = {"index_copy", "index_fill", "masked_scatter", "put", "slice_scatter", "select_scatter"}
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
COPIES = {"contiguous", "clone", "reshape", "_reshape_copy"}


def indexing_traits(flow: Flow) -> Iterator[tuple[str, str]]:
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
    yield from ((_NAMED[name], name) for name in sorted(kinds & _NAMED.keys()))
    yield from _summed_lookup(flow)
    yield from _copies(flow)


def _draws(flow: Flow) -> bool:
    """Say whether random numbers are drawn: a dropout that is evaluated draws none."""
    return any(
        argument(one, "train") is not False and argument(one, "p") != 0
        for one in flow.named(*_RANDOM)
    )


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
    for one in flow.named(*COPIES):
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
                if _steps_side_by_side(flow):
                    yield "steps-along-rows", f"line {loop.line}"
        elif loop.state:
            yield "iteration", f"{state} from turn to turn, line {loop.line}"
        elif loop.indexed:
            yield "independent-loop", f"line {loop.line}"


def _steps_side_by_side(flow: Flow) -> bool:
    """Say whether what most turns of a loop take lies along the last dimension, so that rows are far apart."""
    taken = [one for one in flow.named("select") if flow.inputs[one.name]]
    ranks = [(one.args[1], len(flow.shape(flow.inputs[one.name][0]))) for one in taken]
    along = [dim in (-1, rank - 1) for dim, rank in ranks if rank > 1]
    return len(along) > 1 and sum(along) > len(along) / 2
