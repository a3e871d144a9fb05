import pytest
import torch

from search.judging.cuda.memory import plan, set_bytes
from search.reference import TensorLayout


def test_sets_results_and_parameters_do_not_overlap() -> None:
    inputs = (torch.rand(3, 5), 7, torch.zeros(2, dtype=torch.int64))
    state = {"w": torch.rand(4, 4).t()}
    outputs = (TensorLayout.of(torch.rand(5)),)
    layout = plan(inputs, state, outputs, 3)
    slots = [
        slot
        for row in (
            *layout["sets"],
            *layout["results"],
            layout["again"],
            list(layout["state"].values()),
        )
        for slot in row
        if "offset" in slot
    ]
    spans = sorted(
        (
            slot["offset"],
            torch.Size(slot["shape"]).numel() * getattr(torch, slot["dtype"][6:]).itemsize,
        )
        for slot in slots
    )
    assert len(spans) == 3 * 2 + 3 + 1 + 1
    for (begin, size), (following, _) in zip(spans, [*spans[1:], (layout["size"], 0)], strict=True):
        assert begin + size <= following
        assert begin % 512 == 0
    assert layout["sets"][2][1] == {"value": 7}


@pytest.mark.parametrize(("shape", "expected"), [((4,), 32), ((2, 3), 40)])
def test_a_set_is_as_large_as_its_tensors(shape: tuple[int, ...], expected: int) -> None:
    given = torch.rand(shape)
    assert set_bytes((given, 1.5), (TensorLayout.of(torch.rand(4)),)) == expected
