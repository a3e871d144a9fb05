"""Which calls have a graph that a judge can read."""

import pytest
import torch

from search.aten.programs import OperatorCall, write_program
from search.aten.rule import has_graph


@pytest.mark.parametrize(
    ("at", "has"),
    [(torch.tensor([2, 0]), True), (torch.tensor([True, False, True]), False)],
)
def test_a_shape_that_depends_on_values_is_seen(at: torch.Tensor, has: bool) -> None:
    call = OperatorCall(name=".__getitem__", arguments=(torch.ones(3, 2), at), options={})
    assert has_graph(write_program(call, "rows")) == has
