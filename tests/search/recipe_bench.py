"""A reference's graph, its recipes, and the kernels made of them, run in this process."""

from __future__ import annotations

import copy
import types
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from kb.records.schema import Document
from kb.records.types import Hit, Passage, Query
from search.codegen.library import RecipeCard
from search.codegen.lower import LoweredProgram, lower
from search.codegen.module_writer import RenderedSegment, assemble
from search.codegen.partition import segment
from search.codegen.render import Unfit, prelude, render
from search.codegen.segments import Segment
from search.costs.graph import OperatorGraph
from search.costs.trace import operator_graph

REFERENCE = """import torch, torch.nn as nn, torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {names}):
        {body}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""


def reference(body: str, *inputs: str, init: str = "pass") -> str:
    """Return a reference program; its inputs are called a, b, c, ..."""
    names = ", ".join("abcdef"[: len(inputs)])
    return REFERENCE.format(
        init=init.replace("\n", "\n        "),
        names=names,
        body=body.replace("\n", "\n        "),
        inputs=", ".join(inputs),
    )


def load(text: str, path: str = "loaded") -> Any:
    module = types.ModuleType("loaded")
    exec(compile(text, path, "exec"), module.__dict__)
    return module


_GRAPHS: dict[str, OperatorGraph] = {}


class Bench:
    """One reference and what the recipes make of it."""

    def __init__(self, source: str, cards: dict[str, RecipeCard]) -> None:
        torch.manual_seed(0)
        self.source = source
        self.cards = cards
        self.module = load(source)
        self.model = self.module.Model(*self.module.get_init_inputs()).eval()
        self.inputs = self.module.get_inputs()

    @cached_property
    def graph(self) -> OperatorGraph:
        """Its operators; a source is traced once in a process."""
        if self.source not in _GRAPHS:
            _GRAPHS[self.source] = operator_graph(
                SimpleNamespace(  # type: ignore[arg-type] # the three fields that it reads
                    model=self.model, inputs=self.inputs, task=SimpleNamespace(reference="test")
                )
            )
        return _GRAPHS[self.source]

    @cached_property
    def program(self) -> LoweredProgram:
        return lower(self.graph)

    def parts(self, library: Sequence[str] = ()) -> tuple[Segment, ...]:
        return segment(self.program, library)

    def fits(self, part: Segment) -> list[RecipeCard]:
        found = []
        for card in self.cards.values():
            try:
                render(self.program, part, card, card.defaults(), "probe")
            except Unfit:
                continue
            found.append(card)
        return found

    def candidate(
        self, choice: dict[str, tuple[RecipeCard, dict[str, Any]]], library: Sequence[str]
    ) -> str:
        parts = self.parts(library)
        kernels = {}
        for number, part in enumerate(p for p in parts if p.pattern != "library"):
            card, knobs = choice[part.id]
            name = f"kernel{number}"
            text = render(self.program, part, card, knobs, name)
            kernels[part.id] = RenderedSegment(name=name, text=text, note=card.name)
        return assemble(self.source, self.program, parts, kernels, (), prelude())

    def errors(self, text: str) -> list[tuple[float, float]]:
        """Return the candidate's and eager's error, in units of the largest true value."""
        return self.errors_of(load(text))

    def errors_of(self, module: Any) -> list[tuple[float, float]]:
        """Return the same of a candidate's module; of integers, the share that is wrong."""
        new = module.ModelNew(*self.module.get_init_inputs()).eval()
        new.load_state_dict(self.model.state_dict())
        with torch.no_grad(), warnings.catch_warnings():
            # Eager's own complaint about a variance over one element.
            warnings.filterwarnings("ignore", message="std.*degrees of freedom")
            truth = copy.deepcopy(self.model).double()(
                *(
                    x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                    for x in self.inputs
                )
            )
            eager, found = self.model(*self.inputs), new(*self.inputs)
        if isinstance(found, torch.Tensor):
            truth, eager, found = (truth,), (eager,), (found,)
        result = []
        for t, e, y in zip(truth, eager, found, strict=True):
            assert y.shape == e.shape
            assert y.dtype == e.dtype
            assert y.is_contiguous()
            if not y.is_floating_point():
                result.append((float((y != t).double().mean()), 0.0))
                continue
            scale = t.abs().max().clamp_min(1e-30)
            wrong = [float((x.double() - t).abs().max() / scale) for x in (y, e)]
            result.append((wrong[0], wrong[1]))
        return result


class Shelf:
    """A knowledge base in memory: hits are the records whose operators the query names."""

    def __init__(self, ideas: list[Document], lessons: Sequence[Document] = ()) -> None:
        self._records = {"idea": list(ideas), "lesson": list(lessons)}
        self.retriever = self
        self.store = self
        self.queries: list[Query] = []

    def documents(self, kind: str) -> list[Document]:
        return self._records.get(kind, [])

    def search(self, query: Query) -> list[Hit]:
        self.queries.append(query)
        return [
            Hit(
                passage=Passage(
                    id=f"passage of {document.name}",
                    document=f"kb:ideas/{document.name}.md",
                    section=document.record.title,
                    kind="idea",
                    text=document.body,
                    tokens=1,
                ),
                score=1.0,
                dense_rank=None,
                lexical_rank=1,
            )
            for document in self._records["idea"]
            if set(document.record.scope.operator) & set(query.scope.operator)
        ][: query.limit]


EXAMPLES = Path(__file__).parents[2] / "examples"
