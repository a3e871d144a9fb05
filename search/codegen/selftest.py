"""Proof of the recipes: each is rendered for a small reference that it fits, as a whole candidate."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kb.errors import RecordError
from kb.records.schema import Document, IdeaRecord
from search.codegen.library import RecipeCard, make_card
from search.codegen.lower import lower
from search.codegen.plan import Choice, Composer
from search.costs.trace import operator_graph
from search.reference import Problem, load_problem
from search.task import Task, TaskFile

_UNITS = 132  # multiprocessors that GPU recipes are rendered for: those of a common device
_REFERENCE = """import torch
import torch.nn as nn
import torch.nn.functional as F


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
# Forward, inputs, constructor. Between them every pattern and size class of the recipes occurs. Sizes are no
# powers of two: a candidate that names a size of its task cannot be checked on a smaller one.
_SAMPLES: Mapping[str, tuple[str, str, str]] = {
    "a chain of elements": ("return F.gelu(a * b + 1)", "N(250, 1028), N(250, 1028)", ""),
    "softmax of short rows": ("return torch.softmax(a, -1)", "N(500, 516)", ""),
    "softmax of long rows": ("return torch.softmax(a, -1)", "N(9, 65540)", ""),
    "softmax of one long row": ("return torch.softmax(a, -1)", "N(1, 1000004)", ""),
    "softmax of three values": ("return torch.softmax(a, -1)", "N(4100, 3)", ""),
    "softmax across rows": ("return torch.softmax(a, 1)", "N(5, 130, 260)", ""),
    "softmax down deep columns": ("return torch.softmax(a, 0)", "N(32770, 20)", ""),
    "layer norm": (
        "return self.n(a)", "N(500, 772)", "self.n = nn.LayerNorm(772)"
    ),
    "layer norm of few long rows": (
        "return self.n(a)", "N(4, 64, 128, 64)", "self.n = nn.LayerNorm((64, 128, 64))"
    ),
    "sums of rows": ("return a.sum(-1)", "N(500, 1028)", ""),
    "sums of long rows": ("return a.sum(-1)", "N(5, 262148)", ""),
    "a loss": ("return F.mse_loss(a, b)", "N(1030, 1028), N(1030, 1028)", ""),
    "pooling": ("return F.relu(F.max_pool2d(a, 3, 2, 1))", "N(2, 8, 32, 32)", ""),
    "a scan": ("return torch.cumsum(a, 1)", "N(70, 4100)", ""),
    "a scan of long rows": ("return torch.cumsum(a, 1)", "N(3, 262148)", ""),
    "places of rows": ("return torch.argmax(a, -1).float()", "N(250, 1028)", ""),
    "medians of rows": ("return torch.median(a, -1)[0]", "N(250, 1028)", ""),
    "a median of everything": ("return torch.median(a)", "N(250, 1028)", ""),
    "a factor of matrices": ("return torch.cholesky_inverse(a)", "N(37, 5, 5)", ""),
    "a histogram": ("return torch.histc(a, 100)", "N(250, 1028)", ""),
    "distances": ("return F.pdist(a)", "N(250, 68)", ""),
    "a transposed convolution": (
        "return F.relu(self.c(a))", "N(2, 12, 15, 15)", "self.c = nn.ConvTranspose2d(12, 20, 3, 2, 1, 1)"
    ),
    "a recurrence": ("return self.r(a)[0]", "N(12, 3, 20)", "self.r = nn.GRU(20, 36)"),
    "samples of planes": ("return F.grid_sample(a, b, align_corners=False)", "N(2, 6, 20, 20), N(2, 12, 12, 2)", ""),
    "a product": ("return F.relu(a @ b)", "N(260, 268), N(268, 276)", ""),
    "a product of two-byte tensors": (
        "return F.silu(self.l(a))", "N(260, 268).bfloat16()", "self.l = nn.Linear(268, 276).bfloat16()"
    ),
    "few rows against a matrix": (
        "return torch.tanh(self.l(a))", "N(5, 516)", "self.l = nn.Linear(516, 524)"
    ),
    "an attention": (
        "return F.scaled_dot_product_attention(a, b, b)", "N(2, 3, 40, 20), N(2, 3, 52, 20)", ""
    ),
    "a batch of products": ("return a @ b", "N(8, 32, 48), N(8, 48, 32)", ""),
    "a convolution": (
        "return F.relu(self.c(a))", "N(2, 16, 32, 32)", "self.c = nn.Conv2d(16, 32, 3, padding=1)"
    ),
    "a convolution of many channels": (
        "return F.relu(self.c(a))", "N(1, 64, 16, 16)", "self.c = nn.Conv2d(64, 64, 3, padding=1)"
    ),
    "a convolution of wide planes": (
        "return F.relu(self.c(a))", "N(1, 3, 64, 64)", "self.c = nn.Conv2d(3, 32, 7, 2, 3)"
    ),
    "a convolution with pooling": (
        "return F.max_pool2d(F.relu(self.c(a)), 2)",
        "N(1, 3, 64, 64)",
        "self.c = nn.Conv2d(3, 32, 5, padding=2)",
    ),
    "a pointwise convolution": (
        "return F.relu(self.c(a))", "N(2, 32, 16, 16)", "self.c = nn.Conv2d(32, 64, 1)"
    ),
    "a depthwise convolution": (
        "return self.c(a)", "N(2, 32, 32, 32)", "self.c = nn.Conv2d(32, 32, 3, padding=1, groups=32)"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A recipe as a whole candidate.

    Attributes:
        language: ``cpp``, ``triton`` or ``cuda``.
        sample: which reference it was rendered for, in words.
        trouble: why there is no candidate; empty where there is one.
    """

    path: str
    language: str
    sample: str = ""
    source: str = ""
    trouble: str = ""


class Samples:
    """The small references, each made ready when a recipe first asks for it.

    Args:
        folder: where their files are put.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shops: dict[tuple[str, bool], Composer] = {}
        self._problems: dict[str, Problem] = {}

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The references by what they are."""
        return {
            name: _REFERENCE.format(
                names="a, b" if inputs.count("N(") > 1 else "a",
                body=body,
                init=init or "pass",
                inputs=inputs.replace("N(", "torch.randn("),
            )
            for name, (body, inputs, init) in _SAMPLES.items()
        }

    def problem(self, name: str) -> Problem:
        """Return a reference as the judge has it."""
        if name not in self._problems:
            path = self._folder / f"{name.replace(' ', '-')}.py"
            path.write_text(self.texts[name], encoding="utf-8")
            settings = TaskFile(reference=path.name)
            task = Task(
                name=name, path=path, reference=path, source=self.texts[name], settings=settings
            )
            self._problems[name] = load_problem(task)
        return self._problems[name]

    def shop(self, name: str, card: RecipeCard) -> Composer:
        """Return the workshop of a reference in which `card` is the one recipe."""
        gpu = card.scope.language != ("cpp",)
        key = (name, gpu)
        if key not in self._shops:
            graph = operator_graph(self.problem(name))
            program = lower(graph, symbolic=gpu)
            units = _UNITS if gpu else 0
            self._shops[key] = Composer(self.texts[name], program, {}, library=True, units=units)
        made = self._shops[key]
        units = _UNITS if gpu else 0
        return Composer(
            self.texts[name], made.program, {card.name: card}, library=True, units=units
        )


def render_recipes(documents: Iterable[Document], samples: Samples) -> Iterator[Rendered]:
    """Yield every recipe of a library rendered for the first reference that it fits, or its trouble.

    Recipes that only change how a graph is cut have nothing to render and are left out.
    """
    ideas = {d.name: d for d in documents if isinstance(d.record, IdeaRecord)}
    for name in sorted(ideas):
        try:
            card = make_card(ideas[name], ideas.get)
        except RecordError as error:
            trouble = str(error).removeprefix(f"{ideas[name].path}: ")
            yield Rendered(path=ideas[name].path, language="", trouble=trouble)
            continue
        if card is not None and card.template is not None:
            yield _rendered(ideas[name].path, card, samples)


def _rendered(path: str, card: RecipeCard, samples: Samples) -> Rendered:
    language = card.scope.language[0] if card.scope.language else "cpp"
    for sample in samples.texts:
        try:
            source = _candidate(samples.shop(sample, card), card)
            if source is None:
                continue
            ast.parse(source)
        except Exception as error:  # noqa: BLE001 - a template may raise anything
            told = " ".join(str(error).split())[:300]
            trouble = f"rendering it for {sample} fails: {type(error).__name__}: {told}"
            return Rendered(path=path, language=language, sample=sample, trouble=trouble)
        return Rendered(path=path, language=language, sample=sample, source=source)
    return Rendered(
        path=path,
        language=language,
        trouble=f"the recipe ({card.pattern}) fits none of the {len(samples.texts)} sample references",
    )


def _candidate(shop: Composer, card: RecipeCard) -> str | None:
    """Return the candidate in which `card` does a part, None where it fits none."""
    for library in ((), shop.anchors):
        choices = {}
        for part in shop.cut(library):
            knobs = shop.knobs(part, card)
            if knobs is not None:
                choices[part.id] = Choice(recipe=card.name, knobs=knobs)
        parts = [part for part in shop.cut(library) if part.pattern != "library"]
        if choices and len(choices) == len(parts):
            return shop.source(shop.complete(library, choices))
    return None
