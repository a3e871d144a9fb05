"""What the programs of one launch touch: out of bounds, and in an order that nothing fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Addresses = npt.NDArray[np.int64]
_NOBODY, _SEVERAL = -1, -2
_UNCHANGED = 1 << 30  # marks a write that left the memory as it was
_TRACKED = 1 << 24  # bytes of a tensor beyond which the order of accesses is not watched


class KernelFault(Exception):
    """A kernel did what no kernel may, or did not end; the message is for its author.

    Attributes:
        kind: ``bounds``, ``race``, ``raised``, ``slow``, ``spins``, ``endless`` or ``unsupported``.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentRegion:
    """The memory behind one argument."""

    name: str
    start: int
    size: int
    element: int  # bytes

    @property
    def stop(self) -> int:
        """The first address after it."""
        return self.start + self.size


class AccessWatch:
    """Watches the accesses of one launch.

    Two programs of a launch run in any order, so what one writes the other may neither read nor
    write, unless the memory holds the same either way. Programs that use atomic operations may
    agree on an order, which this cannot follow: after the first one only bounds are watched.

    Args:
        regions: what may be touched; equal starts are one storage.
        peek: reads bytes as they are, None where the memory is not there at all.
    """

    def __init__(
        self,
        regions: Iterable[ArgumentRegion],
        peek: Callable[[Addresses, int], npt.NDArray[np.uint8]] | None,
    ) -> None:
        unique = {region.start: region for region in sorted(regions, key=lambda r: r.size)}
        self._regions = sorted(unique.values(), key=lambda region: region.start)
        self._starts = np.array([region.start for region in self._regions], dtype=np.int64)
        self._stops = np.array([region.stop for region in self._regions], dtype=np.int64)
        self._peek = peek
        self._writers: dict[int, npt.NDArray[np.int32]] = {}
        self._readers: dict[int, npt.NDArray[np.int32]] = {}
        self.program = 0
        self.atomic = False

    def read(self, addresses: Any, mask: Any, size: int) -> None:
        """Note a load.

        Raises:
            KernelFault: it is out of bounds, or reads what another program has written.
        """
        lanes, places = self._inside("reads", addresses, mask, size)
        if self._peek is None or self.atomic or not lanes.size:
            return
        for number, chosen in self._split(places):
            offsets = lanes[chosen] - self._starts[number]
            writers = self._writers.get(number)
            if writers is not None:
                found = writers[offsets]
                alien = (found != _NOBODY) & (found < _UNCHANGED) & (found != self.program)
                if alien.any():
                    raise self._race("reads", number, offsets[alien], int(found[alien][0]))
            readers = self._table(self._readers, number)
            known = readers[offsets]
            mine = (known == _NOBODY) | (known == self.program)
            readers[offsets] = np.where(mine, self.program, _SEVERAL)

    def write(self, addresses: Any, mask: Any, values: Any) -> None:
        """Note a store before it happens.

        Raises:
            KernelFault: it is out of bounds, or its result depends on the order of programs or lanes.
        """
        size = values.dtype.itemsize
        lanes, places = self._inside("writes", addresses, mask, size)
        if self._peek is None or self.atomic or not lanes.size:
            return
        given = np.broadcast_to(values, addresses.shape).ravel()
        given = given[np.broadcast_to(mask, addresses.shape).ravel()]
        rows = np.ascontiguousarray(given).view(np.uint8).reshape(-1, size)
        unique, first, back = np.unique(lanes, return_index=True, return_inverse=True)
        if unique.size != lanes.size and (rows != rows[first][back]).any():
            raise KernelFault("race", "lanes of one store write different values to one place")
        changed = (self._peek(unique, size) != rows[first]).any(axis=1)
        for number, chosen in self._split(places[first]):
            offsets = unique[chosen] - self._starts[number]
            self._note_write(number, offsets, changed[chosen])

    def touch(self, addresses: Any, mask: Any, size: int) -> None:
        """Note an atomic operation.

        Raises:
            KernelFault: it is out of bounds.
        """
        self._inside("updates", addresses, mask, size)
        self.atomic = True

    def _note_write(self, number: int, offsets: Addresses, changed: npt.NDArray[np.bool_]) -> None:
        writers = self._table(self._writers, number)
        known = writers[offsets]
        owner = known & ~np.int32(_UNCHANGED)
        clash = changed & (known != _NOBODY) & (owner != self.program)
        if clash.any():
            raise self._race("writes", number, offsets[clash], int(owner[clash][0]))
        readers = self._readers.get(number)
        if readers is not None:
            found = readers[offsets]
            clash = changed & (found != _NOBODY) & (found != self.program)
            if clash.any():
                raise self._race("overwrites", number, offsets[clash], int(found[clash][0]))
        writers[offsets] = np.where(changed, self.program, self.program | _UNCHANGED)

    def _inside(
        self, does: str, addresses: Any, mask: Any, size: int
    ) -> tuple[Addresses, npt.NDArray[np.intp]]:
        """Return the addresses of active lanes, and the region of each."""
        flat = addresses.astype(np.int64, copy=False).ravel()
        active = np.broadcast_to(mask, addresses.shape).ravel().astype(bool, copy=False)
        lanes = flat[active]
        places = np.searchsorted(self._starts, lanes, side="right") - 1
        if not lanes.size:
            return lanes, places
        outside = (places < 0) | (lanes + size > self._stops[places])
        if outside.any():
            raise self._out_of_bounds(does, flat, active, lanes[outside])
        return lanes, places

    def _out_of_bounds(
        self, does: str, flat: Addresses, active: npt.NDArray[np.bool_], bad: Addresses
    ) -> KernelFault:
        lane = int(np.flatnonzero(active & np.isin(flat, bad))[0])
        address = int(flat[lane])
        told = f"{does} out of bounds: {bad.size} of {int(active.sum())} active lanes, first lane {lane}"
        if not self._regions:
            return KernelFault("bounds", f"{told}: no argument has memory")

        def distance(region: ArgumentRegion) -> int:
            return region.start - address if address < region.start else address - region.stop

        near = min(self._regions, key=distance)
        at = (address - near.start) // near.element
        return KernelFault(
            "bounds",
            f"{told}, at element {at} of {near.name}, whose memory has {near.size // near.element}",
        )

    def _race(self, does: str, number: int, offsets: Addresses, other: int) -> KernelFault:
        region = self._regions[number]
        at = int(offsets[0]) // region.element
        whose = "programs have read" if other == _SEVERAL else f"program number {other} "
        verbs = {
            "reads": f"reads what {whose}has written",
            "writes": f"writes other values where {whose}has written",
            "overwrites": f"writes where {whose if other == _SEVERAL else whose + 'has read'}",
        }
        return KernelFault(
            "race",
            f"{verbs[does]} in the same launch: {offsets.size} places, the first is element {at} of "
            f"{region.name}; programs run in any order",
        )

    def _split(self, places: npt.NDArray[np.intp]) -> Iterable[tuple[int, npt.NDArray[np.bool_]]]:
        for number in np.unique(places).tolist():
            if self._regions[number].size <= _TRACKED:
                yield number, places == number

    def _table(
        self, tables: dict[int, npt.NDArray[np.int32]], number: int
    ) -> npt.NDArray[np.int32]:
        if number not in tables:
            tables[number] = np.full(self._regions[number].size, _NOBODY, dtype=np.int32)
        return tables[number]
