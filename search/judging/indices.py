"""Answers that are places of values: an index is right where the value at it is.

Which output holds indices is seen in the operators that the reference runs: argmax, argmin, max, min, median,
kthvalue and mode along a dimension, topk, sort, cummax, cummin and max pooling. An output is followed back
to them through views, casts and copies. Arithmetic with an index makes an ordinary number of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_EXTREMES = ("argmax", "argmin")
_PAIRED = ("max", "min", "median", "nanmedian", "kthvalue", "mode")
_RUNNING = ("cummax", "cummin")
_SORTED = ("topk", "sort")
# Dimensions of a plane, and whether its windows are found by the sizes alone.
_POOLS = {
    "max_pool2d_with_indices": (2, False),
    "max_pool3d_with_indices": (3, False),
    "adaptive_max_pool2d": (2, True),
    "adaptive_max_pool3d": (3, True),
}
_SEARCHES = (*_EXTREMES, *_PAIRED, *_RUNNING, *_SORTED, *_POOLS)
_COPIES = ("_to_copy", "clone")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSearch:
    """One call of an operator that looks for places.

    Attributes:
        name: the operator's plain name, "topk".
        given: its arguments by their names in ATen.
        found: the indices.
    """

    name: str
    given: Mapping[str, Any]
    found: torch.Tensor

    @property
    def source(self) -> torch.Tensor:
        """What is searched."""
        source: torch.Tensor = self.given["self"]
        return source

    def values(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the value at each index, and whether the index is a permitted one.

        Args:
            places: shaped as `found`.
        """
        if self.name in _POOLS:
            return self._pooled(places)
        source, dim = self.source, self.given.get("dim")
        if dim is None and self.name in _EXTREMES:
            source, places, dim = source.reshape(-1), places.reshape(1), 0
        dim = -1 if dim is None else dim
        if source.dim() == 0:
            source, places = source.reshape(1), places.reshape(1)
        narrow = places.dim() < source.dim()
        places = places.unsqueeze(dim) if narrow else places
        size = source.shape[dim]
        valid = (places >= 0) & (places < size)
        if self.name in _SORTED:
            valid &= ~_repeated(places, dim)
        if self.name in _RUNNING:
            shape = [1] * places.dim()
            shape[dim] = size
            valid &= places <= torch.arange(size, device=places.device).view(shape)
        values = source.gather(dim, places.clamp(0, size - 1))
        if self.given.get("stable") and size > 1:
            before, after = (0, size - 1), (1, size - 1)
            tied = values.narrow(dim, *before) == values.narrow(dim, *after)
            turned = places.narrow(dim, *before) > places.narrow(dim, *after)
            valid.narrow(dim, *after).logical_and_(~(tied & turned))
        return values.reshape(self.found.shape), valid.reshape(self.found.shape)

    def _pooled(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        count, adaptive = _POOLS[self.name]
        source, plane = self.source, self.source.shape[-count:]
        flat = source.flatten(-count)
        valid = (places >= 0) & (places < flat.shape[-1])
        kept = places.clamp(0, flat.shape[-1] - 1)
        values = flat.gather(-1, kept.flatten(-count)).reshape(places.shape)
        rest = kept
        for axis in reversed(range(count)):
            at, rest = rest % plane[axis], rest // plane[axis]
            steps = torch.arange(places.shape[axis - count], device=places.device)
            steps = steps.view(-1, *([1] * (count - axis - 1)))
            if adaptive:
                cells = places.shape[axis - count]
                first = steps * plane[axis] // cells
                valid &= (at >= first) & (at < -(-(steps + 1) * plane[axis] // cells))
                continue
            window, padding = self._each("kernel_size", axis), self._each("padding", axis, 0)
            dilation = self._each("dilation", axis, 1)
            past = at - steps * self._each("stride", axis, window) + padding
            valid &= (past >= 0) & (past < window * dilation) & (past % dilation == 0)
        return values, valid

    def _each(self, name: str, axis: int, usual: int = 1) -> int:
        """Return what a pooling was given for one of its axes."""
        given = self.given.get(name)
        if given is None or given == []:
            return usual
        if isinstance(given, int):
            return given
        return int(given[axis if len(given) > 1 else 0])


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLookup:
    """Finds the values at the indices of one output.

    Attributes:
        trail: from the output back to the search: a tensor, and the one whose memory it shows.
    """

    trail: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    search: PlaceSearch

    @property
    def whole(self) -> bool:
        """Whether what is searched are whole numbers or truth values."""
        return not self.search.source.is_floating_point()

    @property
    def nbytes(self) -> int:
        """Bytes that it keeps alive."""
        return self.search.source.nbytes + sum(base.nbytes for _, base in self.trail)

    def compared(
        self, number: int, outputs: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return what is compared of output `number`, see `values`."""
        return self.values(outputs[number])

    def values(self, got: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the value at each index of `got`, and whether the index is a permitted one.

        It is not where it lies outside of what is searched or of its window, or occurs twice where the
        reference sorts.
        """
        places = _whole(got)
        for shown, base in self.trail:
            # What the output does not show is no index, and so repeats none.
            full = torch.empty_strided(
                base.shape, base.stride(), dtype=torch.int64, device=base.device
            ).fill_(-1)
            _as(full, shown, base).copy_(places)
            places = full
        found = self.search.values(places)
        for shown, base in reversed(self.trail):
            found = tuple(  # type: ignore[assignment] # as many as before
                _as(torch.empty_strided(
                    base.shape, base.stride(), dtype=x.dtype, device=x.device
                ).copy_(x), shown, base)
                for x in found
            )  # fmt: skip
        return found


class OriginWatch(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's own
    """Remembers what some calls returned, and what was copied from it; what is written to comes from them no more."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch's own
        self._origins: dict[int, tuple[torch.Tensor, Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call the operator and look at what it is."""
        del types
        result = func(*args, **(kwargs or {}))
        for value in _written(func, args, kwargs or {}):
            self._origins.pop(memory_of(value), None)
        name = func.overloadpacket.__name__
        if name in _COPIES and memory_of(args[0]) in self._origins:
            self._origins[memory_of(result)] = (result, args[0])
        else:
            names = [argument.name for argument in func._schema.arguments]
            self._note(name, result, {**dict(zip(names, args, strict=False)), **(kwargs or {})})
        return result

    def _note(self, name: str, result: Any, given: Mapping[str, Any]) -> None:
        """Remember what the operator `name` returned, where it is one of those that are watched."""
        raise NotImplementedError


class IndexWatch(OriginWatch):  # type: ignore[no-untyped-call] # torch's own
    """Remembers the calls that look for places."""

    def _note(self, name: str, result: Any, given: Mapping[str, Any]) -> None:
        if name not in _SEARCHES:
            return
        # The greatest of all elements is a value, though integers have it as an integer.
        found = result if name in _EXTREMES else result[-1] if type(result) is tuple else None
        if found is not None:
            search = PlaceSearch(name=name, given=given, found=found)
            self._origins[memory_of(found)] = (found, search)

    def lookup(self, output: torch.Tensor) -> IndexLookup | None:
        """Return how to find the values at the indices in `output`, None where it holds none."""
        trail, shown = [], output
        while memory_of(shown) in self._origins:
            base, origin = self._origins[memory_of(shown)]
            if _overlapping(shown):
                return None
            trail.append((shown, base))
            if isinstance(origin, PlaceSearch):
                return IndexLookup(trail=tuple(trail), search=origin)
            shown = origin
        return None


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors that an operator has written to; one that turns a tensor changes nothing in it."""
    if torch.Tag.inplace_view in func.tags:
        return
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    for argument in func._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = given.get(argument.name)
            for one in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(one, torch.Tensor):
                    yield one


def memory_of(tensor: torch.Tensor) -> int:
    """Return the address of the memory that a tensor shows."""
    return tensor.untyped_storage().data_ptr()


def _overlapping(tensor: torch.Tensor) -> bool:
    return any(
        size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def _as(memory: torch.Tensor, shown: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """Return the view of `memory`, which is laid out as `base`, that `shown` is of `base`."""
    offset = shown.storage_offset() - base.storage_offset()
    return memory.as_strided(shown.shape, shown.stride(), offset)


def _whole(got: torch.Tensor) -> torch.Tensor:
    """Return indices as int64; what is no whole number becomes -1, which is none."""
    if not got.is_floating_point():
        return got.long()
    return torch.where(got == got.round(), got, -1.0).clamp(-1, 2.0**52).long()


def _repeated(places: torch.Tensor, dim: int) -> torch.Tensor:
    """Say of each index whether the same one stands before it along the dimension."""
    ordered, order = places.sort(dim=dim, stable=True)
    again = torch.zeros_like(places, dtype=torch.bool)
    length = places.shape[dim]
    if length > 1:
        same = ordered.narrow(dim, 1, length - 1) == ordered.narrow(dim, 0, length - 1)
        again.narrow(dim, 1, length - 1).copy_(same)
    return torch.zeros_like(again).scatter_(dim, order, again)
