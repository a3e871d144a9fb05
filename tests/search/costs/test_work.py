from __future__ import annotations

from pathlib import Path

import pytest
from traced import traced

from search.costs.work import count_work

SLOW = {
    "return torch.softmax(x.tanh() + x.tanh(), -1)": ("tanh", "softmax"),
    "return F.layer_norm(x, (64,))": (),
    "return torch.relu(x * x) / 3": (),
    "return x ** 2 + x.abs() ** 0.5": (),
    "return x.abs() ** 2.3": ("pow",),
    "return 2 ** x": ("pow",),
}


@pytest.mark.parametrize("forward", SLOW)
def test_operators_that_take_many_instructions_an_element_are_named(
    tmp_path: Path, forward: str
) -> None:
    found = count_work(traced(tmp_path, forward, "torch.randn(64, 64)"))
    assert found.functions == SLOW[forward]


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("return x.bfloat16() @ x.bfloat16()", True),
        ("return (x @ x).bfloat16()", False),
        ("return x.bfloat16() + 1", False),
        ("return (x.half() @ x.half()).float() @ x", False),
    ],
)
def test_products_are_of_two_bytes_where_each_of_them_is(
    tmp_path: Path, forward: str, expected: bool
) -> None:
    found = count_work(traced(tmp_path, forward, "torch.randn(64, 64)"))
    assert found.short
    assert found.short_products is expected
