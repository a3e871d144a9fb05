from types import SimpleNamespace
from typing import Any

import pytest
import torch

from search.judging import checks
from search.judging.checks import Fingerprint, check_outputs, same, same_bytes
from search.sandbox.faults import Fault
from search.strides import TensorLayout

PROBLEM: Any = SimpleNamespace(
    inputs=(3, torch.zeros(4, 5)),
    outputs=(TensorLayout(shape=(4, 5), strides=(5, 1), dtype=torch.float32),),
    single_output=True,
)


def answer(**changes: object) -> dict[str, Any]:
    told = {
        "type": "Tensor",
        "shape": [4, 5],
        "dtype": "torch.float32",
        "device": "cpu",
        "strides": [5, 1],
    }
    return {"outputs": [{**told, **changes}], "single": True, "copied": True}


def test_what_the_reference_returns_is_right() -> None:
    check_outputs(PROBLEM, answer())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "cuda"}, "output 0 has device cuda, expected cpu"),
        ({"dtype": "torch.float16"}, "output 0 has dtype torch.float16"),
        ({"shape": [20]}, "output 0 has shape"),
        ({"strides": [1, 4]}, "output 0 has strides"),
    ],
)
def test_an_answer_of_another_kind_is_wrong(changes: dict[str, object], words: str) -> None:
    with pytest.raises(Fault) as raised:
        check_outputs(PROBLEM, answer(**changes))
    assert raised.value.outcome.kind == "wrong"
    assert words in raised.value.outcome.reason


TURNED: Any = SimpleNamespace(
    inputs=(torch.zeros(5, 1, 4),),
    outputs=(TensorLayout.of(torch.zeros(5, 1, 4).permute(2, 1, 0)),),
    single_output=True,
)


@pytest.mark.parametrize("strides", [[1, 4, 4], [1, 99, 4], [5, 5, 1], [5, 1, 1]])
def test_an_answer_may_lie_as_the_references_view_does_or_contiguously(strides: list[int]) -> None:
    check_outputs(TURNED, answer(shape=[4, 1, 5], strides=strides))


@pytest.mark.parametrize("strides", [[10, 10, 2], [0, 0, 0], [5, 1], "5, 5, 1", None, [-5, 1, 1]])
def test_an_answer_with_gaps_is_told_how_it_may_lie(strides: object) -> None:
    with pytest.raises(Fault) as raised:
        check_outputs(TURNED, answer(shape=[4, 1, 5], strides=strides))
    assert "expected [5, 5, 1], or [1, 4, 4]: return contiguous memory" in str(
        raised.value.outcome.reason
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_the_same_bytes_are_the_same_values_and_others_are_looked_at(dtype: torch.dtype) -> None:
    one = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    assert same_bytes(one, one.clone())
    assert same(one, one.clone())
    other = one.clone()
    other[0, 1] = 0
    assert not same_bytes(one, other)
    assert not same(one, other)
    assert not same_bytes(one, one.t().contiguous().t()), "they may lie otherwise"
    assert same(one, one.t().contiguous().t())
    assert not same_bytes(one, one[:1])
    assert not same_bytes(one, one.to(torch.float64))


def test_the_same_bytes_may_stand_for_other_numbers() -> None:
    value = torch.tensor([1 + 2j, 3 - 1j])
    assert not same(value, value.conj())
    assert same(value, value.conj().conj())
    real = torch.tensor([1.0, -2.0])
    assert not same(real, torch._neg_view(real))
    assert same(-real, torch._neg_view(real))


def test_numbers_of_other_bytes_may_be_the_same() -> None:
    assert same(torch.tensor([0.0, float("nan")]), torch.tensor([-0.0, -float("nan")]))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bool, torch.int64, torch.complex128]
)
def test_a_fingerprint_tells_a_change_of_one_element_and_two_that_changed_places(
    dtype: torch.dtype,
) -> None:
    values = torch.arange(70).remainder(2).to(dtype).reshape(7, 10)
    kept = Fingerprint.of((values, torch.zeros(())))
    assert Fingerprint.of((values.clone(), torch.zeros(()))) == kept
    turned = values.clone()
    turned[3, 4], turned[3, 5] = values[3, 5], values[3, 4]
    one = values.clone()
    one[6, 9] = 0
    assert kept not in {Fingerprint.of((other, torch.zeros(()))) for other in (turned, one)}


def test_a_fingerprint_is_of_all_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_PIECE", 8)
    values = torch.arange(1, 31)
    turned = values.roll(8)  # the same numbers in other pieces
    assert Fingerprint.of((values,)) != Fingerprint.of((turned,))
    assert Fingerprint.of((values,)) == Fingerprint.of((values.clone(),))


def test_a_fingerprint_is_of_what_is_in_memory_in_its_order() -> None:
    values = torch.rand(3, 4, 5)
    kept = Fingerprint.of((values.permute(2, 0, 1),))
    assert kept == Fingerprint.of((values,))  # of one tensor there is one layout
    assert Fingerprint.of((torch.empty(0, 3),)) == Fingerprint.of((torch.empty(3, 0),))
    odd = torch.full((4,), float("nan"))
    assert Fingerprint.of((odd,)) == Fingerprint.of((odd.clone(),))
