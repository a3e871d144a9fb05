"""Distributions of inputs: where a kernel that only looks right goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from search.reference import Problem

_STRUCTURED = (
    0.25  # fraction of exact zeros from which they are a pattern, e.g. a triangular matrix
)


def _normal(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator, device=generator.device)


def _negative(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return _normal(shape, generator) * 2 - 3


def _offset(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return 1000 + 0.1 * _normal(shape, generator)


def _tiny(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return 1e-4 * _normal(shape, generator)


def _huge(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return 1e4 * _normal(shape, generator)


def _sparse(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    kept = torch.rand(shape, generator=generator, device=generator.device) < 0.2
    return _normal(shape, generator) * kept


def _special(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    values = _normal(shape, generator).flatten()
    count = max(1, values.numel() // 1000)
    places = torch.randint(values.numel(), (3, count), generator=generator, device=generator.device)
    for row, value in zip(places, (float("inf"), float("-inf"), float("nan")), strict=True):
        values[row] = value
    return values.reshape(shape)


# "task" is get_inputs() itself, with another seed.
DISTRIBUTIONS: dict[str, Callable[[torch.Size, torch.Generator], torch.Tensor] | None] = {
    "task": None,
    "normal": _normal,
    "negative": _negative,
    "large mean": _offset,
    "tiny": _tiny,
    "huge": _huge,
    "sparse": _sparse,
}
SPECIAL = "special values"


def draw(problem: Problem, distribution: str, seed: int) -> tuple[Any, ...]:
    """Return a fresh set of inputs.

    Tensors of integers or booleans, and scalars, always come from ``get_inputs()``, for only it knows
    which are valid; where its tensors have a pattern of zeros, every distribution keeps that.
    """
    fill = _special if distribution == SPECIAL else DISTRIBUTIONS[distribution]
    if fill is None:
        return problem.draw(seed)
    refilled = all(isinstance(x, torch.Tensor) and x.is_floating_point() for x in problem.inputs)
    # Drawing a gibibyte takes seconds: where every value is replaced, any draw does.
    base = problem.inputs if refilled else problem.draw(seed)
    device = next(value.device for value in base if isinstance(value, torch.Tensor))
    generator = torch.Generator(device).manual_seed(seed)
    return tuple(
        _refilled(value, fill, generator)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for value in base
    )


def _refilled(
    template: torch.Tensor,
    fill: Callable[[torch.Size, torch.Generator], torch.Tensor],
    generator: torch.Generator,
) -> torch.Tensor:
    values = fill(template.shape, generator).to(template.dtype)
    zeros = template == 0
    if zeros.float().mean() >= _STRUCTURED:
        values[zeros] = 0
    return torch.empty_like(template).copy_(values)
