"""Reductions and scans for the interpreter: any combining function on whole tensors, narrow floats too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from search.judging.dryrun.interpreter.low_precision import decode, encode, is_narrow

Tensors = tuple[Any, ...]
Arrays = list[Any]


def reduce(given: Any, axis: Any, combine: Any, keep_dims: bool = False, **_: Any) -> Any:
    """Return `given` reduced along `axis` (all of it for None) by a function of two elements.

    The stock interpreter calls an unknown function once an element, and adds bfloat16 as integers.
    """
    axis, keep_dims = _plain(axis), bool(_plain(keep_dims))
    if _fast(combine) and not any(is_narrow(x.dtype) for x in _tuple(given)):
        return interpreter.ReduceOps(axis, combine, keep_dims).apply(given)
    wide = [_widen(x) for x in _tuple(given)]
    kinds = [x.dtype.scalar for x in _tuple(given)]
    if _fast(combine):
        tensors = tuple(tensor(data, kind) for data, kind in wide)
        single = tensors if isinstance(given, tuple) else tensors[0]
        results = _tuple(interpreter.ReduceOps(axis, combine, keep_dims).apply(single))
        arrays = [result.handle.data for result in results]
    else:
        arrays = _tree([data for data, _ in wide], [kind for _, kind in wide], axis, combine)
        if keep_dims:
            shape = _tuple(given)[0].handle.data.shape
            kept = (1,) * len(shape) if axis is None else (*shape[:axis], 1, *shape[axis + 1 :])
            arrays = [array.reshape(kept) for array in arrays]
    made = tuple(_narrowed(array, kind) for array, kind in zip(arrays, kinds, strict=False))
    return made if isinstance(given, tuple) else made[0]


def scan(given: Any, axis: Any, combine: Any, reverse: bool = False, **_: Any) -> Any:
    """Return the running combination of `given` along `axis`."""
    axis, reverse = int(_plain(axis)), bool(_plain(reverse))
    wide = [_widen(x) for x in _tuple(given)]
    axis %= wide[0][0].ndim
    kinds = [x.dtype.scalar for x in _tuple(given)]
    arrays = [np.flip(data, axis) if reverse else data for data, _ in wide]
    arrays = _running(arrays, [kind for _, kind in wide], axis, combine)
    arrays = [np.flip(array, axis) if reverse else array for array in arrays]
    made = tuple(_narrowed(array, kind) for array, kind in zip(arrays, kinds, strict=True))
    return made if isinstance(given, tuple) else made[0]


def tensor(data: Any, kind: Any) -> Any:
    """Return an interpreter's tensor of element type `kind`; a single element without shape is a scalar."""
    array = np.asarray(data)
    whole = tl.block_type(kind, list(array.shape)) if array.shape else kind
    handle = interpreter.TensorHandle(array if array.shape else array.reshape(1), kind)
    return tl.core.tensor(handle, whole)


def _tree(arrays: Arrays, kinds: list[Any], axis: int | None, combine: Any) -> Arrays:
    """Combine halves until one element is left, as a GPU does; the order is free by contract."""
    if axis is None:
        arrays, axis = [array.reshape(-1) for array in arrays], 0
    while arrays[0].shape[axis] > 1:
        half = arrays[0].shape[axis] // 2
        parts = [np.split(array, [half, 2 * half], axis) for array in arrays]
        joined = _combined(combine, [p[0] for p in parts], [p[1] for p in parts], kinds)
        if parts[0][2].shape[axis]:
            joined = [
                np.concatenate([array, part[2]], axis)
                for array, part in zip(joined, parts, strict=True)
            ]
        arrays = joined
    return [np.take(array, 0, axis) for array in arrays]


def _running(arrays: Arrays, kinds: list[Any], axis: int, combine: Any) -> Arrays:
    """Double the distance combined over (Hillis and Steele 1986)."""
    length, step = arrays[0].shape[axis], 1
    places = np.arange(length).reshape([-1 if n == axis else 1 for n in range(arrays[0].ndim)])
    while step < length:
        before = [np.roll(array, step, axis) for array in arrays]
        joined = _combined(combine, before, arrays, kinds)
        arrays = [
            np.where(places < step, old, new) for old, new in zip(arrays, joined, strict=True)
        ]
        step *= 2
    return arrays


def _combined(combine: Callable[..., Any], one: Arrays, other: Arrays, kinds: list[Any]) -> Arrays:
    left = [tensor(np.ascontiguousarray(a), kind) for a, kind in zip(one, kinds, strict=True)]
    right = [tensor(np.ascontiguousarray(a), kind) for a, kind in zip(other, kinds, strict=True)]
    results = _tuple(combine(*left, *right))
    return [
        np.broadcast_to(result.handle.data, array.shape).astype(array.dtype)
        for result, array in zip(results, one, strict=True)
    ]


def _widen(value: Any) -> tuple[Any, Any]:
    data, kind = value.handle.data, value.dtype.scalar
    return (decode(data, kind), tl.float32) if is_narrow(kind) else (data, kind)


def _narrowed(array: Any, kind: Any) -> Any:
    return tensor(encode(array, kind) if is_narrow(kind) else array, kind)


def _fast(combine: Any) -> bool:
    standard = tl.standard
    return combine in (
        standard._argmin_combine_tie_break_left,
        standard._argmax_combine_tie_break_left,
        standard._elementwise_max,
        standard._elementwise_min,
        standard._sum_combine,
    )


def _tuple(value: Any) -> Tensors:
    return tuple(value) if isinstance(value, (tuple, tl.core.tuple)) else (value,)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value
