"""Arrays as files: written piece by piece, whatever their size, and mapped back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


def new_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Make the file of an array, and return the array: what is assigned to it is written."""
    if 0 in shape:  # nothing cannot be mapped
        empty: NDArray[Any] = np.zeros(shape, dtype)
        np.save(path, empty)
        return empty
    mapped: NDArray[Any] = np.lib.format.open_memmap(path, "w+", dtype, shape)  # type: ignore[no-untyped-call] # as numpy declares it
    return mapped
