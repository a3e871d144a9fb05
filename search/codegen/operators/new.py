"""An operator that another is rewritten into."""

from __future__ import annotations

from typing import Any

from search.codegen.ir import Shape
from search.costs.graph import Operator


def new_operator(
    name: str, target: str, args: tuple[Any, ...], shape: Shape, **kwargs: Any
) -> Operator:
    """Return an operator of float32 values."""
    return Operator(
        name=name,
        target=target,
        args=args,
        kwargs=tuple(kwargs.items()),
        shape=shape,
        dtype="float32",
    )
