"""Which rounding of products a task allows, where its precision is the framework's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch
from torch.nn.modules.conv import _ConvNd

if TYPE_CHECKING:
    from search.reference import Problem

_CALLED = re.compile(r"\bconv(_transpose)?[123]d\b|\bconvolution\b")


def rule(problem: Problem) -> str:
    """Return the precision whose bounds a task's answers keep.

    ``framework`` is what torch does unasked: on a GPU convolutions go through TF32 and products do not
    (torch.backends, "TensorFloat-32"). Its bounds are those of ``tf32`` where the reference has a convolution
    on a GPU, else those of ``strict``.
    """
    precision = problem.task.settings.precision
    if precision != "framework":
        return str(precision)
    on_gpu = any(isinstance(one, torch.Tensor) and one.is_cuda for one in problem.inputs)
    return "tf32" if on_gpu and _has_convolution(problem) else "strict"


def _has_convolution(problem: Problem) -> bool:
    layers = any(isinstance(module, _ConvNd) for module in problem.model.modules())
    return layers or _CALLED.search(problem.task.source) is not None


def allowed_tf32(precision: object) -> tuple[bool, bool]:
    """Return whether products, and whether convolutions, may go through TF32 in the framework."""
    products = precision in ("tf32", "half")
    return products, products or precision == "framework"
