"""The candidate's file keeps what the reference's constructor needs, and nothing of its inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import three_languages
import torch
from recipe_bench import Bench, load, reference

from kb.errors import NoRecipe
from search.codegen.lower import lower
from search.codegen.plan import Composer
from search.costs.trace import operator_graph

SOURCE = '''"""Nested modules, a constant, postponed annotations."""
from __future__ import annotations
import math
import torch
import torch.nn as nn

SCALE = math.sqrt(2)

class Stack(nn.Module):
    def __init__(self, width):
        super(Stack, self).__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.gains = nn.ParameterDict({"g": nn.Parameter(torch.randn(width))})

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) * self.gains["g"]
        return x

class Model(nn.Module):
    def __init__(self, width: int):
        super(Model, self).__init__()
        self.stack = Stack(width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor, y: Later | None = None) -> torch.Tensor:
        return self.drop(self.stack(x)) / SCALE + y

class Later:
    pass

def get_inputs():
    return [torch.rand(3, 11), torch.rand(3, 11)]

def get_init_inputs():
    return [11]

if __name__ == "__main__":
    print(Model(3))
'''


@pytest.mark.slow
def test_the_module_around_the_forward_survives(cards: Any) -> None:
    bench = Bench(SOURCE, cards)
    choice = {
        part.id: (bench.fits(part)[0], bench.fits(part)[0].defaults()) for part in bench.parts()
    }
    text = bench.candidate(choice, ())
    assert text.startswith("from __future__ import annotations\n")
    assert "super(ModelNew, self)" in text
    assert "SCALE = math.sqrt(2)" in text
    assert "get_inputs" not in text
    assert "__main__" not in text
    ((own, eager),) = bench.errors(text)
    assert own <= 8 * eager + 2e-7


@pytest.mark.slow
def test_an_answer_is_allocated_by_the_example_of_an_input_of_its_shape(cards: Any) -> None:
    texts = {}
    for work in ("torch.sigmoid(a) * 2 + a", "(torch.sigmoid(a) * 2).sum(-1)"):
        bench = Bench(reference(f"return {work}", "torch.randn(11, 3).t()"), cards)
        (part,) = bench.parts()
        card = bench.fits(part)[0]
        texts[work] = bench.candidate({part.id: (card, card.defaults())}, ())
        ((own, eager),) = bench.errors(texts[work])
        assert own <= 8 * eager + 2e-7
    same, fewer = texts.values()
    assert "a = a.contiguous()" in same
    assert "torch.empty_like(a)" in same
    assert "torch.empty((3, 1), dtype=torch.float32)" in fewer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "given", "init"),
    [
        ("a @ self.w", "torch.randn(5, 8)", "self.w = nn.Parameter(torch.randn(6, 8).t())"),
        ("a * self.w + 1", "torch.randn(8, 6)", "self.w = torch.randn(6, 8).t()"),
        (
            "F.relu(self.c(a))",
            "torch.randn(1, 3, 8, 8)",
            "self.c = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)",
        ),
    ],
)
def test_weights_that_lie_in_another_order_are_read_in_their_own(
    body: str, given: str, init: str, cards: Any
) -> None:
    found = three_languages.cpp(reference(f"return {body}", given, init=init), cards)
    assert three_languages.right(found), found


def test_a_forward_whose_arguments_have_no_names_has_no_recipe(cards: Any) -> None:
    source = reference("return a * 2 + b", "torch.randn(4)", "torch.randn(4)")
    listed = source.replace("forward(self, a, b):", "forward(self, *xs):").replace(
        "a * 2 + b", "xs[0] * 2 + xs[1]"
    )
    with pytest.raises(NoRecipe, match="give each of them a name"):
        three_languages.cpp(listed, cards)


def test_a_large_constant_that_is_no_attribute_has_no_recipe(cards: Any) -> None:
    source = reference(
        "return a * self.k[0]", "torch.randn(3, 2000)", init="self.k = [torch.randn(2000)]"
    )
    with pytest.raises(NoRecipe, match="make it a buffer"):
        three_languages.cpp(source, cards)


def test_with_the_library_calls_the_answer_is_the_same(cards: Any) -> None:
    bench = Bench(SOURCE, cards)
    anchors = tuple(part.anchor for part in bench.parts() if part.anchor)
    parts = [part for part in bench.parts(anchors) if part.pattern != "library"]
    choice = {part.id: (bench.fits(part)[0], bench.fits(part)[0].defaults()) for part in parts}
    text = bench.candidate(choice, anchors)
    assert "torch.nn.functional.linear" in text
    ((own, eager),) = bench.errors(text)
    assert own <= 8 * eager + 2e-7


def test_a_normalisation_in_training_keeps_its_statistics_and_its_count(cards: Any) -> None:
    source = reference(
        "return F.relu(self.b(a)) * 2",
        "torch.randn(2, 3, 12, 12)",
        init="self.b = nn.BatchNorm2d(3)",
    )
    module = load(source)
    before, inputs = module.Model(), module.get_inputs()
    graph = operator_graph(
        SimpleNamespace(model=before, inputs=inputs, task=SimpleNamespace(reference="test"))  # type: ignore[arg-type]
    )
    written = {name: card for name, card in cards.items() if "cpp" in card.scope.language}
    shop = Composer(source, lower(graph), written, library=True)
    after = load(shop.source(shop.complete(shop.base(), {}))).ModelNew()
    after.load_state_dict(before.state_dict())
    with torch.no_grad():
        assert torch.equal(after(*inputs), before(*inputs))
    assert int(after.b.num_batches_tracked) == 1
    for name, value in before.state_dict().items():
        assert torch.equal(after.state_dict()[name], value), name


def test_a_part_of_what_the_library_made_is_returned_without_gaps(cards: Any) -> None:
    source = reference(
        "x = a @ torch.exp(b)\nreturn x[:, 1].transpose(0, 1), x",
        "torch.randn(3, 4, 5, 6)",
        "torch.randn(3, 4, 6, 7)",
    )
    bench = Bench(source, cards)
    anchors = tuple(part.anchor for part in bench.parts() if part.anchor)
    parts = [part for part in bench.parts(anchors) if part.pattern != "library"]
    choice = {part.id: (bench.fits(part)[0], bench.fits(part)[0].defaults()) for part in parts}
    found, whole = load(bench.candidate(choice, anchors)).ModelNew()(*bench.inputs)
    assert found.is_contiguous()
    assert torch.equal(found, whole[:, 1].transpose(0, 1))


@pytest.mark.parametrize(
    "part", ["[:, 1].unsqueeze(0)", "[:, ::2].mT", "[::2].moveaxis(0, 1)", ".tensor_split(2, 1)[0]"]
)
def test_a_part_of_integers_is_returned_without_gaps(part: str) -> None:
    bench = Bench(reference(f"return torch.sort(a, 1)[1]{part}", "torch.randn(4, 6)"), {})
    found = load(bench.candidate({}, ())).ModelNew()(*bench.inputs)
    assert found.is_contiguous()
    assert torch.equal(found, bench.model(*bench.inputs))
