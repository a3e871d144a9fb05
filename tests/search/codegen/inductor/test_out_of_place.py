"""Operators that write into what they read."""

from __future__ import annotations

import pytest
from recipe_bench import Bench, reference

from search.codegen.inductor.out_of_place import out_of_place
from search.codegen.ir import refs


def targets(body: str) -> list[str]:
    return [
        one.target
        for one in out_of_place(Bench(reference(body, "torch.randn(4, 6)"), {}).graph).operators
    ]


def test_what_follows_reads_what_was_written() -> None:
    graph = out_of_place(
        Bench(
            reference("b = a * 2\nF.relu_(b)\nb += 1\nreturn b * b", "torch.randn(4, 6)"), {}
        ).graph
    )
    assert [one.target.split(".")[0] for one in graph.operators] == ["mul", "relu", "add", "mul"]
    last = graph.operators[-1]
    assert {ref.name for ref in refs(last.args)} == {graph.operators[-2].name}


def test_what_is_returned_is_what_was_written_last() -> None:
    graph = out_of_place(
        Bench(reference("b = a * 2\nF.relu_(b)\nreturn b", "torch.randn(4, 6)"), {}).graph
    )
    assert graph.outputs == (graph.operators[-1].name,)


@pytest.mark.parametrize(
    "body",
    [
        "b = a.view(6, 4)\nF.relu_(b)\nreturn a",
        "F.relu_(a[:, :4])\nreturn a",
        "b = a * 2\nc = torch.meshgrid(b[0], b[1], indexing='ij')\nF.relu_(b)\nreturn c[0]",
        "b = a.view(6, 4)\nF.relu_(b)\nb += 1\nreturn a",
    ],
)
def test_what_has_another_name_stays_as_it_is(body: str) -> None:
    """Of an input, or where a view does not say that it is one: all else is out of place when it is traced."""
    found = targets(body)
    assert [one for one in found if one.startswith("relu")] == ["relu_.default"]
    assert "add.Tensor" not in found


def test_what_is_written_into_through_another_name_is_traced_out_of_place() -> None:
    assert "relu.default" in targets("b = a * 2\nF.relu_(b[:, :4])\nreturn b")
