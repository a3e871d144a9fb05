"""From a call of an operator to a reference program that makes it: plain text, which needs torch alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_PLAIN = (bool, int, float, str, type(None))
_NAMED = (torch.dtype, torch.memory_format, torch.layout)
# Which place of a plane each element goes to, and how many dimensions a plane has.
_PLANES = {f"torch.nn.functional.max_unpool{axes}d": axes for axes in (1, 2, 3)}
_LISTED = 4096  # elements of a tensor whose values a program may list


class Unwritable(Exception):
    """A call cannot be written as a program; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCall:
    """An operator with its arguments, tensors among them.

    Attributes:
        name: as the program writes it, ``torch.add`` or ``.fill`` for a method of the first argument.
    """

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def run(self) -> Any:
        """Return what it computes of copies of its arguments."""
        copies = tuple(_copy(value) for value in self.arguments)
        options = {name: _copy(value) for name, value in self.options.items()}
        return OperatorCall(name=self.name, arguments=copies, options=options).run_in_place()

    def run_in_place(self) -> Any:
        """Return what it computes of its own arguments, which it may change."""
        if self.name.startswith("."):
            return getattr(self.arguments[0], self.name[1:])(*self.arguments[1:], **self.options)
        return _look_up(self.name)(*self.arguments, **self.options)


def function_name(name: str) -> str:
    """Return how a program writes the operator that OpInfo calls `name`.

    Raises:
        Unwritable: torch has no function or method of that name.
    """
    if callable(_look_up(f"torch.{name}")):
        return f"torch.{name}"
    if "." not in name and callable(getattr(torch.Tensor, name, None)):
        return f".{name}"
    raise Unwritable("torch has no function or method of this name")


def write_program(call: OperatorCall, title: str, *, exact: bool = False) -> str:
    """Return the program of a call in KernelBench's form.

    Values are drawn uniformly from the range that those of the call have, so that what an operator is not
    defined for stays out.

    Args:
        exact: the call's own values in their place, where a tensor is small enough to be written out.

    Raises:
        Unwritable: an argument has no plain form, or none is a tensor.
    """
    tensors: list[torch.Tensor] = []
    arguments = [_written(value, tensors) for value in call.arguments]
    arguments += [f"{name}={_written(value, tensors)}" for name, value in call.options.items()]
    if not tensors:
        raise Unwritable("no argument is a tensor")
    if call.name.startswith("."):
        made = f"{arguments[0]}{call.name}({', '.join(arguments[1:])})"
    else:
        made = f"{call.name}({', '.join(arguments)})"
    names = ", ".join(f"x{number}" for number in range(len(tensors)))
    plane = _PLANES.get(call.name, 0)
    drawn = "\n".join(f"        {_laid_out(tensor, plane, exact=exact)}," for tensor in tensors)
    return (
        f'"""{title}"""\n\nimport torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, {names}):\n'
        f"        return {made}\n\n\ndef get_inputs():\n    return [\n{drawn}\n    ]\n\n\ndef get_init_inputs():\n"
        "    return []\n"
    )


def enlarged(call: OperatorCall, elements: int) -> OperatorCall | None:
    """Return the call on tensors of about `elements` elements, None where it cannot be made larger.

    Every extent but the first stays where all floating-point tensors share their first one; a tensor of one
    dimension grows along it.
    """
    tensors = [value for value in call.arguments if isinstance(value, torch.Tensor)]
    if len(tensors) != sum(
        _tensors_in(value) for value in (*call.arguments, *call.options.values())
    ):
        return None  # some lie in lists or options: what belongs together is not known
    shapes = {tuple(value.shape) for value in tensors}
    if len(shapes) != 1 or not tensors[0].shape or not all(x.is_floating_point() for x in tensors):
        return None
    (shape,) = shapes
    first = max(1, elements // max(1, math.prod(shape[1:])))
    return OperatorCall(
        name=call.name,
        arguments=tuple(_grown(x, (first, *shape[1:])) for x in call.arguments),
        options=call.options,
    )


def _grown(value: Any, shape: Sequence[int]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    low, high = _range(value)
    return torch.empty(*shape, dtype=value.dtype).uniform_(low, high)


def _tensors_in(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return 1
    if isinstance(value, (list, tuple)):
        return sum(map(_tensors_in, value))
    return 0


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copy, value))
    return value


def _look_up(name: str) -> Any:
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def _written(value: Any, tensors: list[torch.Tensor]) -> str:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return f"x{len(tensors) - 1}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, _NAMED):
        return str(value)
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_written(one, tensors) for one in value)
        return f"[{inner}]"
    raise Unwritable(f"an argument is a {type(value).__name__}")


def _laid_out(tensor: torch.Tensor, plane: int, *, exact: bool) -> str:
    """Return an expression that makes a tensor like this one, in its layout as far as that has no gaps."""
    if tensor.numel() == 0:
        return f"torch.empty({list(tensor.shape)}, dtype={tensor.dtype})"
    if tensor.is_complex():
        raise Unwritable("a tensor is complex")
    listed = exact and tensor.numel() <= _LISTED and not _meet(tensor, plane)
    made = _listed(tensor) if listed else _drawn(tensor, plane)
    if not tensor.is_contiguous() and tensor.dim() > 1:
        made = f"{made}.transpose(0, 1).contiguous().transpose(0, 1)"
    return made


def _meet(tensor: torch.Tensor, plane: int) -> bool:
    """Say whether places of one plane are named twice: what is written there has no order."""
    if not plane or tensor.is_floating_point():
        return False
    ordered = tensor.flatten(-plane).sort(-1).values
    return bool((ordered.diff(dim=-1) == 0).any())


def _listed(tensor: torch.Tensor) -> str:
    values = tensor.detach().reshape(-1).tolist()
    texts = (
        repr(value) if not isinstance(value, float) or math.isfinite(value) else f'float("{value}")'
        for value in values
    )
    listed = f"torch.tensor([{', '.join(texts)}], dtype={tensor.dtype})"
    return f"{listed}.reshape({list(tensor.shape)})"


def _drawn(tensor: torch.Tensor, plane: int = 0) -> str:
    """Return an expression that draws a tensor like this one.

    Args:
        plane: how many last dimensions are the places of one plane, none of which may be named twice.
    """
    shape = list(tensor.shape)
    if tensor.dtype is torch.bool:
        return f"torch.randint(0, 2, {shape}).bool()"
    low, high = _range(tensor)
    if tensor.is_floating_point():
        return f"torch.empty({shape}, dtype={tensor.dtype}).uniform_({low!r}, {high!r})"
    least, count = int(low), int(high) + 1 - int(low)
    distinct = _distinct(tensor)
    if plane and count >= math.prod(shape[-plane:]):
        distinct = len(shape) - plane, math.prod(shape[-plane:])
    if distinct is None:
        return f"torch.randint({least}, {least + count}, {shape}, dtype={tensor.dtype})"
    dim, length = distinct
    whole = length != shape[dim]  # all that follows is one line
    lines = [*shape[:dim], count, *([] if whole else shape[dim + 1 :])]
    drawn = f"torch.rand({lines}).argsort({dim}).narrow({dim}, 0, {length})"
    drawn += ".contiguous()" if length < count and dim else ""
    drawn += f".reshape({shape})" if whole else ""
    return f"{drawn}.add({least}).to({tensor.dtype})" if least else f"{drawn}.to({tensor.dtype})"


def _distinct(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return along which dimension no whole number occurs twice, and how many there are; None where each does.

    What is written to places that are named so has an order only if no two of them meet. From that dimension on all may
    be one line, as the places in a plane are.
    """
    for dim in range(max(tensor.dim() - 3, 0), tensor.dim() - 1):
        if _all_differ(tensor.flatten(dim), dim):
            return dim, math.prod(tensor.shape[dim:])
    for dim in range(tensor.dim()):
        if _all_differ(tensor, dim):
            return dim, tensor.shape[dim]
    return None


def _all_differ(tensor: torch.Tensor, dim: int) -> bool:
    ordered = tensor.sort(dim).values
    return tensor.shape[dim] > 1 and not bool((ordered.diff(dim=dim) == 0).any())


def _range(tensor: torch.Tensor) -> tuple[float, float]:
    values = tensor.detach().double()
    finite = values[torch.isfinite(values)]
    if finite.numel() == 0:
        return 0.0, 1.0
    low, high = round(float(finite.min()), 4), round(float(finite.max()), 4)
    return (low, high) if low < high else (low, low + 1.0 if tensor.is_floating_point() else low)
