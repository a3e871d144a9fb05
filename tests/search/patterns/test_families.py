from __future__ import annotations

from pathlib import Path

from traced import traced

from search.costs.graph import Operator
from search.patterns.families import argument, topic, topic_of


def operator(target: str, *args: object, **kwargs: object) -> Operator:
    return Operator(
        name="y",
        target=target,
        args=args,
        kwargs=tuple(kwargs.items()),
        shape=(4,),
        dtype="float32",
    )


def test_operators_that_the_judge_counts_as_elementwise_have_the_family_that_knows_them() -> None:
    assert topic(operator("nansum.default")) == "reduction"
    assert topic(operator("max_unpool2d.default")) == "gather-scatter"
    assert topic(operator("linalg_inv.default")) == "matmul"
    assert topic(operator("relu.default")) == "elementwise"


def test_what_computes_nothing_has_no_family() -> None:
    assert topic(operator("broadcast_tensors.default")) is None
    assert topic_of("swapaxes") is None
    assert topic_of("std_mean") == "reduction"
    assert topic_of("made_up") is None


def test_an_argument_is_found_by_its_name_wherever_it_stands() -> None:
    assert argument(operator("topk.default", "x", 5, 0), "dim") == 0
    assert argument(operator("topk.default", "x", 5), "dim") == -1
    assert argument(operator("argsort.stable", "x", stable=True, dim=1), "dim") == 1
    assert argument(operator("relu.default", "x"), "dim") is None
    assert argument(operator("somewhere.else", "x"), "dim") is None


def test_the_families_of_a_traced_reference_are_known(tmp_path: Path) -> None:
    graph = traced(tmp_path, "return torch.std_mean(x, -1)[0]", "torch.rand(64, 512)")
    assert "reduction" in {topic(one) for one in graph.operators}
