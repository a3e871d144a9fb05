"""What is decided by an expression: what it costs, whether it is a truth value, what is recognised."""

from __future__ import annotations

import pytest

from search.codegen import expressions as ir

X, Y = ir.Operand(0), ir.Operand(1)


def test_python_operators_build_trees_that_compare_by_structure() -> None:
    assert ir.Binary("-", ir.Operand(0), ir.Operand(1)) == X - Y
    assert ir.Binary("-", ir.Const(1.0), X) == 1 - X
    assert ir.exp(X - Y) == ir.exp(X - Y) != ir.exp(Y - X)
    assert hash(ir.square(X)) == hash(X * X)


@pytest.mark.parametrize(
    ("expression", "costs"),
    [(X * 2 + Y, False), (1 / ir.sqrt(X), False), (X + ir.exp(Y), True), (ir.whole_power(X, 3), False),
     (ir.power(X, Y), True), (ir.select(X > 0, X, ir.expm1(X)), True)],
)  # fmt: skip
def test_a_function_anywhere_in_it_makes_it_costly(expression: ir.Expression, costs: bool) -> None:
    assert ir.costly(expression) is costs


def test_products_are_seen_wherever_they_stand() -> None:
    assert ir.multiplies(ir.exp(X * Y) + 1)
    assert not ir.multiplies(ir.whole_power(X, 2) / Y)


def test_truth_values_are_told_from_numbers() -> None:
    assert ir.is_truth(X > 0, [False])
    assert ir.is_truth(~(X > 0) & (Y < 1), [False, False])
    assert ir.is_truth(X, [True])
    assert not ir.is_truth(ir.number_of(X > 0), [False])
    assert not ir.is_truth(-X, [False])


def test_a_reduction_is_named_as_plans_and_lessons_name_it() -> None:
    spread = ir.Reduction("Sum", mean=True, correction=1.0)
    assert [str(kind) for kind in (ir.SUM, ir.MAX, ir.MEAN, spread)] == [
        "Sum",
        "Max",
        "Mean",
        "Mean:1",
    ]
