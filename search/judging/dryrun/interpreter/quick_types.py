"""Types and shapes of an interpreted kernel's values, made once for each shape.

Triton makes them anew for every value, which takes longer than what small kernels compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

_make_block, _equal_types = core.block_type.__init__, core.dtype.__eq__
_broadcast_values = TritonSemantic.broadcast_impl_value
# Shapes of types with their elements; by such a shape's identity, the shape itself, a tensor's elements and its shape.
_blocks: dict[tuple[int, ...], tuple[Any, int]] = {}
_shapes: dict[int, tuple[Any, Any, Any]] = {}
_NO_SHAPE = (core.constexpr(1), core.tuple([]))
_semantics: dict[int, Any] = {}


def install(set_attribute: Callable[[object, str, object], None]) -> None:
    """Have interpreted kernels use these types.

    Args:
        set_attribute: as `setattr`; it may know how to undo it.
    """
    set_attribute(core.block_type, "__init__", _block)
    set_attribute(core.block_type, "name", property(_name, lambda *_: None))
    set_attribute(core.tensor, "__init__", _tensor)
    set_attribute(core.dtype, "__eq__", _equal)
    set_attribute(TritonSemantic, "broadcast_impl_value", _broadcast)


def patch_attribute(obj: object, name: str, member: Any, builder: Any, scope: Any) -> None:
    """Replace a function of the language by one that computes, as the function of Triton that this stands for does."""
    # Without the check that it is the interpreter that calls.
    call = getattr(member, "__wrapped__", member)
    if id(builder) not in _semantics:
        _semantics[id(builder)] = TritonSemantic(builder)
    semantic = _semantics[id(builder)]

    def computing(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return call(*args, **kwargs)

    scope.set_attr(obj, name, computing)


# Triton's interpreter calls it by this name, before anything else can be installed.
interpreter._patch_attr = patch_attribute


def _block(self: Any, element_ty: Any, shape: Any) -> None:
    key = tuple(one.value if isinstance(one, core.constexpr) else one for one in shape)
    if key not in _blocks:
        _make_block(self, element_ty, shape)
        _blocks[key] = (self.shape, self.numel)
    self.element_ty = element_ty
    self.shape, self.numel = _blocks[key]


def _name(self: Any) -> str:
    return f"<{self.shape}, {self.element_ty}>"


def _tensor(self: Any, handle: Any, type: Any) -> None:  # noqa: A002 - as Triton has it
    self.handle, self.type, self.dtype = handle, type, type.scalar
    if not type.is_block():
        self.numel, self.shape = _NO_SHAPE
        return
    found = _shapes.get(id(type.shape))
    if found is None:
        sizes = [core.constexpr(one) for one in type.shape.values]
        elements = core.constexpr(math.prod(type.shape.values))
        found = _shapes[id(type.shape)] = (type.shape, elements, core.tuple(sizes))
    _, self.numel, self.shape = found


def _equal(self: Any, other: Any) -> bool:
    return self is other or bool(_equal_types(self, other))


def _broadcast(self: Any, lhs: Any, rhs: Any) -> Any:
    """Return two values in one shape; most have it already."""
    if lhs.shape is rhs.shape:
        return lhs, rhs
    return _broadcast_values(self, lhs, rhs)
