"""How eager lays out what a program answers."""

from __future__ import annotations

import types
from typing import Any


def moved(value: Any, device: str) -> Any:
    """Return a tensor or a module on a device; a tensor without memory gets memory that nobody wrote."""
    import torch

    if isinstance(value, torch.Tensor) and value.is_meta:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    return value.to(device) if isinstance(value, (torch.Tensor, torch.nn.Module)) else value


def mislaid(module: types.ModuleType, device: str, result: Any) -> list[int]:
    """Return the positions of results that the code does not lay out as eager on `device` does.

    Eager is asked on real inputs: on tensors without memory some operators (`lerp`) lay their results out otherwise.
    """
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    single = isinstance(result, torch.Tensor)
    listed = [result] if single else list(result)
    odd = [number for number, one in enumerate(listed) if not one.is_contiguous()]
    if not odd:
        return []
    with _disable_current_modes():
        try:
            model = module.Model(*getattr(module, "get_init_inputs", tuple)())
            given = (x.clone() if isinstance(x, torch.Tensor) else x for x in module.get_inputs())
            eager = moved(model, device)(*(moved(one, device) for one in given))
        except (RuntimeError, TypeError, ValueError, LookupError, AssertionError):
            return []  # an answer that is laid out otherwise is refused by the judge, which says so
    own = [eager] if single else list(eager)
    return [number for number in odd if _steps(own[number]) != _steps(listed[number])]


def _steps(value: Any) -> list[int]:
    """Return the strides that count: of a dimension of one element none does."""
    return [step for step, size in zip(value.stride(), value.shape, strict=True) if size != 1]
