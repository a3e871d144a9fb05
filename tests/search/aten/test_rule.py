"""Which calls a judge can ask: they have a graph, and leave their arguments as they are."""

import pytest
import torch

from search.aten.programs import OperatorCall, write_program
from search.aten.rule import has_graph, writes_or_shows


@pytest.mark.parametrize(
    ("at", "has"),
    [(torch.tensor([2, 0]), True), (torch.tensor([True, False, True]), False)],
)
def test_a_shape_that_depends_on_values_is_seen(at: torch.Tensor, has: bool) -> None:
    call = OperatorCall(name=".__getitem__", arguments=(torch.ones(3, 2), at), options={})
    assert has_graph(write_program(call, "rows")) == has


X, MEAN, SPREAD = torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3)


@pytest.mark.parametrize(
    ("call", "does"),
    [
        (OperatorCall(name="torch.add", arguments=(X, X), options={}), False),
        (OperatorCall(name="torch.cholesky", arguments=(torch.eye(3) * 2,), options={}), False),
        (OperatorCall(name="torch.transpose", arguments=(X, 0, 1), options={}), True),
        (
            OperatorCall(
                name="torch.nn.functional.instance_norm",
                arguments=(X,),
                options={"running_mean": MEAN, "running_var": SPREAD},
            ),
            True,
        ),
        (
            OperatorCall(
                name="torch.native_batch_norm",
                arguments=(X, SPREAD, MEAN, MEAN + 1, SPREAD * 2, True, 0.0, 1e-5),  # a momentum of nothing
                options={},
            ),
            True,
        ),
    ],
)  # fmt: skip
def test_what_writes_to_its_arguments_or_shows_them_is_seen(call: OperatorCall, does: bool) -> None:
    assert writes_or_shows(call) == does
