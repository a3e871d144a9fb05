"""Tensor maps: what Hopper's copy engine (TMA) needs to know of a tensor.

Needs nothing but the standard library and torch, so that a file that uses it can carry a copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kb.runtime.launch import check, driver

# CUtensorMapDataType
_TYPES = {"uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6,
          "float32": 7, "float64": 8, "bfloat16": 9, "tf32": 11}  # fmt: skip
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes -> CUtensorMapSwizzle
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}  # bytes -> CUtensorMapL2promotion
_BYTES, _ALIGNMENT = 128, 64  # of CUtensorMap


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map, to be passed for a ``const __grid_constant__ CUtensorMap`` parameter."""

    packed: bytes


def tensor_map(
    tensor: Any,
    box: Sequence[int],
    swizzle: int = 0,
    *,
    promotion: int = 128,
    kind: str | None = None,
) -> TensorMap:
    """Describe `tensor` for copies of boxes of it; the same tensor is described once.

    What lies outside the tensor is read as zero. The map holds the tensor's address: make it for
    the tensor of each call.

    Args:
        tensor: of at most five dimensions on the GPU, the last one contiguous, the others at
            strides of a multiple of 16 bytes.
        box: elements of one copy in each of the tensor's dimensions, at most 256 each.
        swizzle: bytes of the pattern in shared memory that avoids bank conflicts: 0, 32, 64 or 128.
        promotion: bytes that the L2 cache fetches at once: 0, 64, 128 or 256.
        kind: how elements are read, where not as the tensor's dtype: "tf32" rounds float32.

    Raises:
        ValueError: the tensor or the box cannot be described.
    """
    name = kind or str(tensor.dtype).removeprefix("torch.")
    if name == "int8" or name.startswith("float8"):
        name = "uint8"
    if name not in _TYPES or swizzle not in _SWIZZLES or promotion not in _PROMOTIONS:
        raise ValueError(
            f"tensor_map: cannot describe {name} with swizzle={swizzle}, promotion={promotion}: "
            f"types are {', '.join(_TYPES)}, swizzles {list(_SWIZZLES)}, promotions {list(_PROMOTIONS)}"
        )
    shape, strides, size = tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size()
    if not tensor.is_cuda or not 1 <= len(shape) <= 5 or len(box) != len(shape) or strides[-1] != 1:
        raise ValueError(
            "tensor_map: expected a tensor on the GPU of one to five dimensions, the last one contiguous, and a "
            f"side of the box for each, found shape {shape}, strides {strides} and box {tuple(box)}"
        )
    spans = tuple(stride * size for stride in strides[:-1])
    modes = (_TYPES[name], _SWIZZLES[swizzle], _PROMOTIONS[promotion])
    return _encoded(tensor.data_ptr(), shape, spans, tuple(box), modes)


@lru_cache(maxsize=512)
def _encoded(
    address: int,
    shape: tuple[int, ...],
    spans: tuple[int, ...],
    box: tuple[int, ...],
    modes: tuple[int, int, int],
) -> TensorMap:
    rank, (kind, swizzle, promotion) = len(shape), modes
    room = ctypes.create_string_buffer(_BYTES + _ALIGNMENT)
    at = -(-ctypes.addressof(room) // _ALIGNMENT) * _ALIGNMENT
    # The innermost dimension comes first; it has no stride.
    status = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(at),
        kind,
        rank,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*reversed(shape)),
        (ctypes.c_uint64 * max(rank - 1, 1))(*reversed(spans)),
        (ctypes.c_uint32 * rank)(*reversed(box)),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,  # not interleaved
        swizzle,
        promotion,
        0,  # what lies outside reads as zero
    )
    check(status, f"describing a tensor of shape {shape}, byte strides {spans}, for boxes {box}")
    return TensorMap(ctypes.string_at(at, _BYTES))
