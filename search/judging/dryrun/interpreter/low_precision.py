"""Types that numpy lacks: bfloat16 and the 8-bit floats, decoded to float32 and rounded back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_EIGHT = {
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}


def is_narrow(dtype: Any) -> bool:
    """Say whether numpy holds values of this Triton type as integers."""
    name = getattr(getattr(dtype, "scalar", dtype), "name", "")
    return name == "bf16" or name in _EIGHT


def decode(data: Any, dtype: Any) -> Any:
    """Return the float32 values of `data`, which holds bits of `dtype`."""
    name = dtype.scalar.name
    if name == "bf16":
        return (data.astype(np.uint32) << 16).view(np.float32)
    bits = torch.from_numpy(np.array(data, dtype=np.uint8))
    return bits.view(_EIGHT[name]).float().numpy()


def encode(values: Any, dtype: Any) -> Any:
    """Round `values` to the nearest of `dtype`, ties to even, and return their bits.

    The 8-bit types saturate, as the conversion instructions of GPUs do.
    """
    name = dtype.scalar.name
    wide = np.ascontiguousarray(values, dtype=np.float32)
    if name == "bf16":
        bits = wide.view(np.uint32)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(wide), np.uint16(0x7FC0), rounded)
    kind = _EIGHT[name]
    top = torch.finfo(kind).max
    return torch.from_numpy(wide.copy()).clamp(-top, top).to(kind).view(torch.uint8).numpy()


def to_tf32(values: Any) -> Any:
    """Round float32 to ten bits of mantissa, half away from zero, as tensor cores read it."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
