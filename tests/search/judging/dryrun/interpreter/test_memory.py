from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from search.judging.dryrun.interpreter.memory import AccessWatch, ArgumentRegion, KernelFault

BASE = 1 << 20


class Store:
    """Memory that a test can write."""

    def __init__(self, count: int) -> None:
        self.values = np.full(count, -1, dtype=np.int32)
        self.start = self.values.ctypes.data

    def peek(self, addresses: Any, size: int) -> Any:
        rows = [list(ctypes.string_at(int(address), size)) for address in addresses]
        return np.array(rows, dtype=np.uint8)

    def write(
        self, memory: AccessWatch, program: int, places: list[int], values: list[int]
    ) -> None:
        memory.program = program
        addresses = np.array([self.start + 4 * place for place in places], dtype=np.uint64)
        data = np.array(values, dtype=np.int32)
        memory.write(addresses, np.ones(len(places), bool), data)
        self.values[places] = data

    def read(self, memory: AccessWatch, program: int, places: list[int]) -> None:
        memory.program = program
        addresses = np.array([self.start + 4 * place for place in places], dtype=np.uint64)
        memory.read(addresses, np.ones(len(places), bool), 4)


@pytest.fixture
def store() -> Store:
    return Store(16)


@pytest.fixture
def memory(store: Store) -> AccessWatch:
    region = ArgumentRegion(name="out", start=store.start, size=64, element=4)
    return AccessWatch([region], store.peek)


def absent() -> AccessWatch:
    return AccessWatch([ArgumentRegion(name="x", start=BASE, size=40, element=4)], None)


def test_lanes_that_the_mask_leaves_out_may_point_anywhere() -> None:
    addresses = np.array([BASE, BASE + 400], dtype=np.uint64)
    absent().read(addresses, np.array([True, False]), 4)


def test_the_first_lane_out_of_bounds_is_named_with_its_element() -> None:
    addresses = np.arange(BASE + 32, BASE + 48, 4).astype(np.uint64)
    with pytest.raises(
        KernelFault, match="2 of 4 active lanes, first lane 2, at element 10 of x"
    ) as told:
        absent().read(addresses, np.ones(4, bool), 4)
    assert told.value.kind == "bounds"


def test_an_access_that_begins_inside_and_ends_outside_is_out_of_bounds() -> None:
    with pytest.raises(KernelFault, match="out of bounds"):
        absent().read(np.array([BASE + 36], dtype=np.uint64), np.ones(1, bool), 8)


def test_programs_may_write_different_places(store, memory) -> None:
    for program in range(4):
        store.write(memory, program, [program], [program])


def test_programs_may_write_the_same_value_to_one_place(store, memory) -> None:
    store.write(memory, 0, [3], [7])
    store.write(memory, 1, [3], [7])


def test_programs_that_write_different_values_to_one_place_race(store, memory) -> None:
    store.write(memory, 0, [3], [7])
    with pytest.raises(KernelFault, match="element 3 of out") as told:
        store.write(memory, 1, [3], [8])
    assert told.value.kind == "race"


def test_a_program_may_write_twice_and_read_what_it_wrote(store, memory) -> None:
    store.write(memory, 0, [3], [7])
    store.read(memory, 0, [3])
    store.write(memory, 0, [3], [8])


def test_reading_what_another_program_wrote_races(store, memory) -> None:
    store.write(memory, 0, [3], [7])
    with pytest.raises(KernelFault, match="reads what program number 0 has written"):
        store.read(memory, 1, [3])


def test_overwriting_what_another_program_read_races(store, memory) -> None:
    store.read(memory, 0, [3])
    with pytest.raises(KernelFault, match="program number 0 has read"):
        store.write(memory, 1, [3], [7])


def test_programs_may_read_one_place(store, memory) -> None:
    for program in range(3):
        store.read(memory, program, [5])


def test_lanes_of_one_store_may_not_disagree(store, memory) -> None:
    with pytest.raises(KernelFault, match="lanes of one store"):
        store.write(memory, 0, [3, 3], [7, 8])


def test_after_an_atomic_operation_only_bounds_are_watched(store, memory) -> None:
    store.write(memory, 0, [3], [7])
    memory.touch(np.array([store.start], dtype=np.uint64), np.ones(1, bool), 4)
    store.write(memory, 1, [3], [8])
    with pytest.raises(KernelFault, match="out of bounds"):
        store.read(memory, 1, [16])
