"""Which ideas are measured on which tasks: as many for each as asked for, of all kinds of shapes."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.records.schema import TargetRecord
from search.codegen.applicability import exact, languages, make_shop, suiting
from search.codegen.library import RecipeCard
from search.codegen.plan import Composer
from search.measuring.single_idea import Fit, fit
from search.measuring.tables import KINDS, Shape, Tables

if TYPE_CHECKING:
    from search.costs.graph import OperatorGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An idea and a task that it is measured on."""

    card: RecipeCard
    shape: Shape


class Shops:
    """The workshops of tasks on one device, each made when it is first asked for.

    Args:
        cards: every recipe of the library.
    """

    def __init__(self, cards: Mapping[str, RecipeCard], target: TargetRecord) -> None:
        self._target = target
        self._languages = languages("auto", target)
        self._cards = cards
        self._made: dict[str, Composer] = {}

    def suiting(self) -> dict[str, RecipeCard]:
        """Return the ideas that suit the device, whatever the precision of a task.

        What begins with torch.compile's code, or replays launches, has no kernel of its own to measure.
        """
        shorter = suiting(self._cards, self._target, self._languages, "half")
        names = (name for name in sorted(shorter) if shorter[name].renders)
        return {name: self._cards[name] for name in names}

    def shop(self, shape: Shape) -> Composer:
        """Return the workshop of a task with every recipe that suits it."""
        if shape.name not in self._made:
            precision = shape.reference.precision
            cards = suiting(self._cards, self._target, self._languages, precision)
            graph = _graph(shape)
            self._made[shape.name] = make_shop(shape.source, self._target, graph, cards)
        return self._made[shape.name]

    def fit(self, card: RecipeCard, shape: Shape) -> Fit:
        """Say whether a recipe renders a task, and its scope speaks of the task's operator."""
        wanted = card.scope.operator
        if wanted and shape.reference.operator not in wanted:
            return "none"
        if card.name in shape.reference.without or not exact(card, shape.reference.precision):
            return "none"
        return fit(self.shop(shape), card)


def choose(card: RecipeCard, tables: Tables, shops: Shops, count: int) -> list[Shape]:
    """Return at most `count` tasks that a recipe fits: one of each kind of shape before a second.

    Those that the default knobs fit come first, else the order is the table's, so that ideas of one
    pattern share tasks.
    """
    waiting = {kind: _fitting(card, tables.get(card.pattern, ()), shops, kind) for kind in KINDS}
    found: list[Shape] = []
    while waiting and len(found) < count:
        for kind in list(waiting):
            shape = next(waiting[kind], None)
            if shape is None:
                del waiting[kind]
            elif len(found) < count:
                found.append(shape)
    return found


def _fitting(card: RecipeCard, shapes: Sequence[Shape], shops: Shops, kind: str) -> Iterator[Shape]:
    """Yield the tasks of a kind that a recipe fits."""
    others: list[Shape] = []
    for shape in shapes:
        found = shops.fit(card, shape) if shape.kind == kind else "none"
        if found == "defaults":
            yield shape
        elif found == "other knobs":
            others.append(shape)
    yield from others


def by_task(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Return the pairs by the task's name: what is prepared for a task serves all its ideas."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.shape.name, []).append(pair)
    return found


def _graph(shape: Shape) -> OperatorGraph:
    """Trace a task on tensors without memory: nothing is computed, whatever its size."""
    import torch

    from search.costs.trace import trace

    module = types.ModuleType("reference")
    exec(compile(shape.source, shape.name, "exec"), module.__dict__)  # noqa: S102 - the library's own
    with torch.device("meta"):
        model = module.Model().requires_grad_(False)
        inputs = tuple(module.get_inputs())
    return trace(model, inputs)
