"""How eager lays out what a program answers."""

from __future__ import annotations

import types
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_LITTLE = 1 << 22  # elements of inputs and results
_RAISED = (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AssertionError, AttributeError, OSError)  # fmt: skip


def moved(value: Any, device: str) -> Any:
    """Return a tensor or a module on a device; a tensor without memory gets memory that nobody wrote."""
    import torch

    if isinstance(value, torch.Tensor) and value.is_meta:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    return value.to(device) if isinstance(value, (torch.Tensor, torch.nn.Module)) else value


def mislaid(
    module: types.ModuleType, device: str, model: Any, inputs: Sequence[Any], result: Any
) -> list[int]:
    """Return the positions of results that the code does not lay out as eager on `device` does.

    Eager is asked on real inputs where that is little work and nothing is raised, else on tensors without memory, on which some operators
    (`lerp`) lay their results out otherwise. Where that raises too, nothing is said: the judge refuses what is laid out otherwise.

    Args:
        model, inputs: what the code was made for, which may have no memory.
        result: the code's.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import _disable_current_modes

    listed = _listed(result)
    odd = [number for number, one in enumerate(listed) if not one.is_contiguous()]
    if not odd:
        return []
    eager: list[Any] | None = None
    if sum(x.numel() for x in (*inputs, *listed) if isinstance(x, torch.Tensor)) <= _LITTLE:
        with suppress(*_RAISED), _disable_current_modes():
            given = (x.clone() if isinstance(x, torch.Tensor) else x for x in module.get_inputs())
            own = module.Model(*getattr(module, "get_init_inputs", tuple)())
            eager = _listed(moved(own, device)(*(moved(one, device) for one in given)))
    if eager is None:
        with suppress(*_RAISED), FakeTensorMode(allow_non_fake_inputs=True):
            eager = _listed(model(*inputs))
    if eager is None:
        return []
    return [number for number in odd if _steps(eager[number]) != _steps(listed[number])]


def _listed(result: Any) -> list[Any]:
    import torch

    return [result] if isinstance(result, torch.Tensor) else list(result)


def _steps(value: Any) -> list[int]:
    """Return the strides that count: of a dimension of one element none does."""
    return [step for step, size in zip(value.stride(), value.shape, strict=True) if size != 1]
