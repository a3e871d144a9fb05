"""Which tensor of a compiled program is which of the module's, and where the forward's results come from."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

SMALL = 4096  # elements of a constant that is written out


class Interception:
    """What became of the program: Inductor's text, and what the stand-in was called with."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.constants: dict[str, Any] = {}
        self.mutated: tuple[int, ...] = ()  # positions of arguments
        self.arguments: list[Any] = []
        self.returned: list[Any] = []


def known_tensors(model: Any, inputs: tuple[Any, ...]) -> Iterator[tuple[Any, str, str]]:
    """Yield every tensor of the module and its inputs, with kind and name."""
    import torch

    for at, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            yield value, "input", str(at)
    for name, value in model.named_parameters(remove_duplicate=False):
        yield value, "parameter", name
    for name, value in model.named_buffers(remove_duplicate=False):
        yield value, "buffer", name
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                yield value, "attribute", f"{prefix}.{name}".lstrip(".")


def global_tensors(module: types.ModuleType) -> Iterator[tuple[Any, str, str]]:
    """Yield the tensors that a file's module binds."""
    import torch

    for name, value in vars(module).items():
        if isinstance(value, torch.Tensor):
            yield value, "global", name


def find(value: Any, known: list[tuple[Any, str, str]]) -> dict[str, Any] | None:
    """Return which of the known tensors `value` is, None where it is none of them."""
    import torch

    if not isinstance(value, torch.Tensor):
        return None
    for other, kind, name in known:
        if value is other or _same_place(value, other):
            return {"kind": kind, "name": name, "strides": list(value.stride()), "shape": list(value.shape)}  # fmt: skip
    return None


def _same_place(one: Any, other: Any) -> bool:
    import torch

    if one.shape != other.shape or one.stride() != other.stride() or one.dtype != other.dtype:
        return False
    if type(one) is not torch.Tensor and type(one) is not torch.nn.Parameter:
        # It has no address.
        return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)
    return bool(one.data_ptr() == other.data_ptr() and one.numel())


def constant(value: Any) -> dict[str, Any] | None:
    """Return a constant with its elements, None where it has too many."""
    if value.numel() > SMALL or value.is_complex():
        return None
    return {
        "kind": "constant",
        "name": "",
        "data": value.flatten().tolist(),
        "shape": list(value.shape),
        "strides": list(value.stride()),
        "dtype": str(value.dtype).removeprefix("torch."),
        "device": value.device.type,
    }


def place(value: Any, seen: Interception) -> tuple[int, Any] | None:
    """Return which of the compiled program's results or arguments `value` is, and which view of it."""
    import torch

    if not isinstance(value, torch.Tensor):
        return None
    for offset, listed in ((0, seen.returned), (None, seen.arguments)):
        for at, other in enumerate(listed):
            if not isinstance(other, torch.Tensor) or value.dtype != other.dtype:
                continue
            if value.untyped_storage()._cdata != other.untyped_storage()._cdata:
                continue
            place = at if offset == 0 else -1 - at
            if (value.shape, value.stride(), value.storage_offset()) == (
                other.shape,
                other.stride(),
                other.storage_offset(),
            ):
                return place, None
            start = value.storage_offset() - other.storage_offset()
            return place, (list(value.shape), list(value.stride()), start)
    return None
