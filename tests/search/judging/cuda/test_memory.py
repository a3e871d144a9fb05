from __future__ import annotations

import pytest
import torch

from search.judging.cuda.memory import (
    DeviceRegion,
    JudgeMemory,
    memory_told,
    most_bytes,
    plan,
    set_bytes,
    unprepared,
)
from search.outcome import Crashed
from search.strides import TensorLayout
from search.sandbox.faults import Fault


def test_sets_results_and_parameters_do_not_overlap() -> None:
    inputs = (torch.rand(3, 5), 7, torch.zeros(2, dtype=torch.int64))
    state = {"w": torch.rand(4, 4).t(), "b": torch.rand(200)}
    outputs = (TensorLayout.of(torch.rand(5)),)
    layout = plan(inputs, state, outputs, 3)
    rows = (*layout["sets"], *layout["results"], layout["again"])
    slots = [slot for row in rows for slot in row if "offset" in slot]
    spans = sorted(
        (
            slot["offset"],
            torch.Size(slot["shape"]).numel() * getattr(torch, slot["dtype"][6:]).itemsize,
        )
        for slot in slots
    )
    assert len(spans) == 3 * 2 + 3 + 1
    for (begin, size), (following, _) in zip(spans, [*spans[1:], (layout["size"], 0)], strict=True):
        assert begin + size <= following
        assert begin % 512 == 0
    assert layout["sets"][2][1] == {"value": 7}
    # Parameters lie apart.
    assert [slot["offset"] for slot in layout["state"].values()] == [0, 512]
    assert layout["state_size"] == 512 + 1024
    assert not layout["scarce"]


def test_of_one_call_the_kept_answer_takes_no_memory() -> None:
    layout = plan((torch.rand(3),), {}, (TensorLayout.of(torch.rand(5)),), 1)
    assert layout["scarce"]
    assert layout["again"] == layout["results"][0]
    assert layout["size"] == 2 * 512


@pytest.mark.parametrize(("shape", "expected"), [((4,), 32), ((2, 3), 40)])
def test_a_set_is_as_large_as_its_tensors(shape: tuple[int, ...], expected: int) -> None:
    given = torch.rand(shape)
    assert set_bytes((given, 1.5), (TensorLayout.of(torch.rand(4)),)) == expected


def test_a_task_of_thirteen_gigabytes_fits_on_a_device_of_80() -> None:
    shape = (4096, 393216)
    given = torch.empty(shape, device="meta")
    answer = TensorLayout.of(given)
    one, two = (most_bytes((given,), (answer,), sets) for sets in (1, 2))
    free = (80 << 30) - given.nbytes  # 79.6 GiB of an H100 are for programs
    assert one < free < two


def test_who_holds_the_memory_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (7 << 30, 80 << 30))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 40 << 30)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 50 << 30)
    told = memory_told()
    assert "7168 of 81920 MiB are free" in told
    assert "40960 MiB of the 51200" in told


def test_why_a_task_cannot_be_prepared_is_a_line() -> None:
    full = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 32.00 GiB. GPU 0 has no")
    assert unprepared(full).startswith("the device has no memory left to judge it (CUDA out of memory)")
    assert "ended while it was timed (killed)" in unprepared(Fault(Crashed(reason="killed")))


@pytest.fixture
def regions(monkeypatch: pytest.MonkeyPatch) -> list[Region]:
    """The regions that are made, of which a device has room for seven."""
    made: list[Region] = []

    def create(nbytes: int) -> Region:
        if len(made) == 7:
            raise torch.OutOfMemoryError("no room")
        made.append(Region(nbytes))
        return made[-1]

    monkeypatch.setattr(DeviceRegion, "create", create)
    return made


class Region:
    """Stands for memory of a device that is not here."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.freed = nbytes, 0

    def handle(self) -> str:
        return f"{id(self)}"

    def close(self) -> None:
        self.freed += 1


def test_where_memory_is_scarce_the_calls_share_one_region_and_parameters_do_not(regions: list[Region]) -> None:
    layout = plan((torch.rand(3),), {"w": torch.rand(300)}, (TensorLayout.of(torch.rand(5)),), 1)
    memory = JudgeMemory(layout, 4096, room=1 << 20)
    (place,) = memory.candidates
    candidates, baselines = (memory.handles(one) for one in (place, memory.baselines))
    assert candidates["handle"] == baselines["handle"]
    assert candidates["state_handle"] != baselines["state_handle"]
    assert [one.nbytes for one in regions] == [1024, 1536, 1536, 4096]
    memory.close()
    assert [one.freed for one in regions] == [1] * 4


def test_candidates_take_turns_with_two_places_and_with_one_where_they_are_large(
    regions: list[Region],
) -> None:
    """What a program that was killed still writes is not where the next one is."""
    layout = plan((torch.rand(3),), {}, (TensorLayout.of(torch.rand(5)),), 2)
    memory = JudgeMemory(layout, 4096, room=1 << 20)
    first, second = ({**memory.handles(place)} for place in memory.candidates)
    assert first["handle"] != second["handle"]
    assert first["state_handle"] != second["state_handle"]
    assert memory.handles(memory.baselines)["handle"] not in (first["handle"], second["handle"])
    regions.clear()
    assert len(JudgeMemory(layout, 4096, room=100).candidates) == 1


def test_what_was_allocated_before_the_device_was_full_is_freed(regions: list[Region]) -> None:
    layout = plan((torch.rand(3),), {}, (TensorLayout.of(torch.rand(5)),), 2)  # seven regions
    regions.append(Region(1))
    assert len(JudgeMemory(layout, 4096, room=1 << 20).candidates) == 1, "it goes on with one place"
    assert [one.freed for one in regions] == [0] * 6 + [1], "no half of a second one is kept"
    regions[:] = [Region(1) for _ in range(3)]
    with pytest.raises(torch.OutOfMemoryError):
        JudgeMemory(layout, 4096, room=1 << 20)
    assert [one.freed for one in regions] == [0] * 3 + [1] * 4


def test_judging_takes_three_times_inputs_and_answers_of_one_size() -> None:
    given = torch.empty((1 << 14, 1 << 16), device="meta")
    task = 2 * given.nbytes
    processes = 4 << 30
    held = given.nbytes + most_bytes((given,), (TensorLayout.of(given),), 1) - processes
    assert held == 3 * task
