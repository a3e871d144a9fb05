"""Operators that write into what they read."""

from __future__ import annotations

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


def test_what_has_another_name_stays_as_it_is() -> None:
    assert any(
        t.startswith("relu_.") for t in targets("b = a * 2\nc = b.view(6, 4)\nF.relu_(b)\nreturn c")
    )
