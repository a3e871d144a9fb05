"""Forms of convolutions and pooling, and what stands around them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from search.costs.graph import Operator
from search.patterns.flow import Flow

_ACTIVATIONS = {"relu", "relu_", "hardtanh", "gelu", "silu", "hardswish", "leaky_relu", "elu", "sigmoid", "tanh"}  # fmt: skip
_POOLS = {"max": "max-pooling", "avg": "average-pooling"}
_UPSAMPLES = ("upsample", "interpolate", "pixel_shuffle", "grid_sampler")


def convolution_traits(flow: Flow) -> Iterator[tuple[str, str]]:
    """Yield traits of convolutions and pooling with what shows them."""
    convolutions = list(flow.steps("convolution"))
    for one in convolutions:
        yield from _form(flow, one)
        yield from _followed(flow, one)
    if len(convolutions) >= 4:
        yield "many-convolutions", f"{len(convolutions)} of them"
    for one in flow.steps("pooling"):
        yield from _pooling(flow, one)
    for one in flow:
        kind = flow.kind(one.name)
        spatial = (len(one.shape) >= 4 and kind in {"repeat_interleave", "repeat"}) or (
            len(one.shape) >= 6 and kind == "expand"
        )
        if flow.kind(one.name).startswith(_UPSAMPLES) or spatial:
            yield "upsampling", one.name
    for one in flow.named("mean", "sum", "amax"):
        taken = flow.shape(flow.inputs[one.name][0]) if flow.inputs[one.name] else ()
        if len(taken) == 4 and prod(one.shape) == prod(taken[:2]):
            yield "global-pooling", one.name
            yield from _gated(flow, one)
    yield from _residual(flow)


def _form(flow: Flow, one: Operator) -> Iterator[tuple[str, str]]:
    names = flow.inputs[one.name]
    taken, weight = flow.shape(names[0]), flow.shape(names[1])
    kernel = weight[2:]
    told = "x".join(map(str, kernel))
    transposed = "transpose" in flow.kind(one.name) or _flag(one, 6)
    groups = _groups(one, taken, weight, transposed=transposed)
    yield "convolution", f"{told} kernel"
    yield f"convolution-{len(kernel)}d", f"{told} kernel"
    if transposed:
        yield "transposed-convolution", one.name
    if groups > 1 and groups == taken[1]:
        yield "depthwise-convolution", f"{groups} groups of one channel"
    elif groups > 1:
        yield "grouped-convolution", f"{groups} groups"
    if set(kernel) == {1}:
        yield "pointwise-convolution", one.name
    elif not transposed and groups == 1:
        if kernel == (3, 3):
            yield "three-by-three-convolution", one.name
        yield "dense-convolution", f"{told} kernel"
    if max(kernel) >= 7:
        yield "large-kernel", f"{told} kernel"
    dilation = _pair(one, 5)
    if dilation and max(dilation) > 1:
        yield "dilated-convolution", f"dilation {dilation}"


def _followed(flow: Flow, one: Operator) -> Iterator[tuple[str, str]]:
    after = [*flow.after(one.name)]
    kinds = {flow.kind(name) for name in after}
    further = {flow.kind(then) for name in after for then in flow.after(name)}
    further |= {
        flow.kind(two) for name in after for then in flow.after(name) for two in flow.after(then)
    }
    if kinds & _ACTIVATIONS or (kinds & {"batch_norm", "add"} and further & _ACTIVATIONS):
        yield "convolution-then-activation", ", ".join(sorted((kinds | further) & _ACTIVATIONS))
    if "batch_norm" in kinds and not _trains(flow):
        yield "evaluated-batch-norm", "behind a convolution"
    if any("pool" in kind for kind in kinds | further):
        yield "convolution-then-pooling", one.name
    if kinds & {"group_norm", "instance_norm"} or (kinds & {"batch_norm"} and _trains(flow)):
        yield "convolution-then-norm", one.name
    for name in after:
        if flow.step(name) == "convolution":
            yield "convolution-then-convolution", f"{one.name}, {name}"


def _trains(flow: Flow) -> bool:
    return any(_flag(one, 5) for one in flow.named("batch_norm"))


def _pooling(flow: Flow, one: Operator) -> Iterator[tuple[str, str]]:
    kind = flow.kind(one.name)
    taken = flow.shape(flow.inputs[one.name][0])
    if prod(one.shape[2:]) == 1 or "adaptive" in kind:
        yield "global-pooling", one.name
        yield from _gated(flow, one)
        return
    yield "pooling", one.name
    yield next((name for word, name in _POOLS.items() if word in kind), "pooling"), one.name
    window, stride = _pair(one, 1), _pair(one, 2)
    if window and max(window) > max(stride or window):
        yield "overlapping-windows", f"window {window}, stride {stride}"
    if len(taken) == 5:
        yield "pooling-3d", one.name


def _gated(flow: Flow, pooled: Operator) -> Iterator[tuple[str, str]]:
    """What is pooled, passed through small layers and multiplied with what was pooled."""
    source = flow.origin(flow.inputs[pooled.name][0])
    waiting = [pooled.name]
    seen: set[str] = set()
    while waiting and len(seen) < 40:
        name = waiting.pop()
        for taker in flow.takers.get(name, ()):
            if taker in seen:
                continue
            seen.add(taker)
            waiting.append(taker)
            taken = {flow.origin(one) for one in flow.inputs[taker]}
            if flow.kind(taker) == "mul" and source in taken:
                yield "gate-from-pooling", taker
                return


def _residual(flow: Flow) -> Iterator[tuple[str, str]]:
    """A sum of something with what was made of it by at least one step."""
    for one in flow.named("add", "add_"):
        taken = [flow.origin(name) for name in flow.inputs[one.name]]
        if len(taken) != 2 or flow.shape(taken[0]) != flow.shape(taken[1]):
            continue
        for short, long in (taken, taken[::-1]):
            if long in flow.operators and _reaches(flow, long, short):
                yield "residual", one.name
                return


def _reaches(flow: Flow, name: str, source: str) -> bool:
    waiting, steps = [name], 0
    seen: set[str] = set()
    while waiting and len(seen) < 60:
        one = waiting.pop()
        if one == source:
            return steps > 0
        if one in seen:
            continue
        seen.add(one)
        steps += bool(flow.step(one))
        waiting += flow.inputs.get(one, ())
    return False


def _pair(one: Operator, place: int) -> tuple[int, ...]:
    if len(one.args) <= place:
        return ()
    found: Any = one.args[place]
    if isinstance(found, int) and not isinstance(found, bool):
        return (found,)
    right = isinstance(found, tuple) and all(isinstance(size, int) for size in found)
    return tuple(found) if right else ()


def _flag(one: Operator, place: int) -> bool:
    return len(one.args) > place and one.args[place] is True


def _groups(
    one: Operator, taken: tuple[int, ...], weight: tuple[int, ...], *, transposed: bool
) -> int:
    if transposed:
        return max(1, one.shape[1] // weight[1])
    return max(1, taken[1] // weight[1])
