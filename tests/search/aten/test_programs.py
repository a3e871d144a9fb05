from __future__ import annotations

from typing import Any

import pytest
import torch

from search.aten.programs import OperatorCall, Unwritable, enlarged, function_name, write_program
from search.aten.rule import _larger, _program, _require_judged


def call(name: str, *arguments: object, **options: object) -> OperatorCall:
    return OperatorCall(name=name, arguments=arguments, options=options)


def program_of(one: OperatorCall) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(write_program(one, "A title."), names)
    return names


def test_a_program_makes_the_call_on_values_of_the_samples_range():
    x = torch.tensor([[2.0, 3.0], [2.5, 4.0]])
    names = program_of(call("torch.add", x, x, alpha=2))
    one, two = names["get_inputs"]()
    assert one.shape == (2, 2)
    assert 2.0 <= float(one.min()) <= float(one.max()) <= 4.0
    assert torch.equal(names["Model"]()(one, two), torch.add(one, two, alpha=2))


def test_a_program_of_its_own_values_makes_the_very_call():
    x = torch.tensor([[2.0, float("inf")], [float("nan"), 4.0]]).t()
    index = torch.tensor([1, 0])
    names: dict[str, object] = {}
    exec(write_program(call("torch.index_select", x, 0, index), "A title.", exact=True), names)
    one, two = names["get_inputs"]()
    assert one.stride() == x.stride()
    assert torch.equal(one.nan_to_num(-1.0), x.nan_to_num(-1.0))
    assert torch.equal(two, index)


def test_where_values_of_the_range_are_refused_the_samples_own_are_timed():
    positive = call("torch.cholesky", torch.eye(3) * 4)
    for seed in range(20):  # one drawn matrix in ten is positive
        torch.manual_seed(seed)
        assert "torch.tensor(" in _program(positive, "A title.")
    assert "uniform_" in _program(call("torch.exp", torch.ones(3)), "A title.")


def test_integers_booleans_lists_and_strides_are_written():
    index = torch.tensor([0, 2, 1])
    x = torch.randn(3, 4).t()
    names = program_of(call("torch.stack", [x, x.clone()], dim=0))
    one, _ = names["get_inputs"]()
    assert one.stride() == x.stride()
    names = program_of(call(".index_select", torch.randn(3), 0, index))
    assert names["get_inputs"]()[1].dtype is torch.int64
    names = program_of(call("torch.logical_not", torch.tensor([True, False])))
    assert names["get_inputs"]()[0].dtype is torch.bool


def test_what_has_no_plain_form_is_said():
    with pytest.raises(Unwritable, match="an argument is a Generator"):
        write_program(call("torch.add", torch.randn(2), generator=torch.Generator()), "t")
    with pytest.raises(Unwritable, match="no argument is a tensor"):
        write_program(call("torch.zeros", 3), "t")


def test_names_are_those_of_public_functions_and_methods():
    assert function_name("nn.functional.gelu") == "torch.nn.functional.gelu"
    assert function_name("fill_") == ".fill_" or function_name("fill_") == "torch.fill_"
    with pytest.raises(Unwritable, match="no function or method"):
        function_name("no_such_operator")


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (call("torch.argmax", torch.randn(4)), "returns torch.int64"),
        (call("torch.nn.functional.dropout", torch.ones(64)), "different answers"),
        (call("torch.log", -torch.ones(4)), "not finite"),
        (call("torch.roll", torch.randn(4), 8), "its answer is its input"),
        (call("torch.transpose", torch.randn(2, 3), 0, 1), "a view"),
        (call(".add_", torch.randn(4), 1.0), "its input changes"),
        (call("torch.add", torch.empty(0), 1.0), "an input is empty"),
        (call("torch.mm", torch.randn(2, 3), torch.randn(2, 3)), "raises RuntimeError"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_its_reason(one, why):
    with pytest.raises(Unwritable, match=why):
        _require_judged(one)


def test_calls_are_made_larger_where_their_answers_grow_with_them():
    softmax = _larger(call("torch.softmax", torch.rand(3, 16), 1))
    assert softmax is not None
    assert softmax.arguments[0].numel() == 1 << 18
    assert softmax.arguments[0].shape[1] == 16
    assert _larger(call("torch.cov", torch.rand(3, 16))) is None
    assert _larger(call("torch.mm", torch.rand(4, 4), torch.rand(4, 4))) is None
    assert enlarged(call("torch.stack", [torch.rand(3)]), 100) is None


def drawn(program: str) -> list[torch.Tensor]:
    made: dict[str, Any] = {}
    exec(program, made)
    return made["get_inputs"]()


def test_places_that_never_meet_are_drawn_so():
    index = torch.stack([torch.randperm(10)[:5] for _ in range(6)], dim=1)
    call = OperatorCall(
        name="torch.scatter", arguments=(torch.rand(10, 6), 0, index, torch.rand(5, 6)), options={}
    )
    for _ in range(20):
        _, places, _ = drawn(write_program(call, "scatter"))
        assert places.shape == index.shape
        assert places.dtype == index.dtype
        assert all(len(set(column.tolist())) == 5 for column in places.T)
    plane = torch.arange(6).view(1, 1, 2, 3) * 2
    call = OperatorCall(
        name="torch.nn.functional.max_unpool2d",
        arguments=(torch.rand(1, 1, 2, 3), plane.clamp(max=9), 2),
        options={},
    )
    _, places = drawn(write_program(call, "unpool"))
    assert places.shape == plane.shape
    assert len(set(places.flatten().tolist())) == 6
    assert int(places.max()) <= 9
    sample = write_program(call, "unpool", exact=True)
    assert "torch.tensor([0.5" in sample.replace(
        f"{call.arguments[0].flatten()[0].item()!r}", "0.5"
    )
    _, places = drawn(sample)
    assert len(set(places.flatten().tolist())) == 6, (
        "the sample's own places meet: 9 stands there twice"
    )


def test_whole_numbers_that_meet_are_drawn_as_before():
    call = OperatorCall(
        name="torch.gather", arguments=(torch.rand(3, 4), 0, torch.zeros(3, 4).long()), options={}
    )
    assert "torch.randint(0, 1, [3, 4], dtype=torch.int64)" in write_program(call, "gather")
