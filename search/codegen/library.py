"""Idea records that can be rendered: their templates, knobs and what they fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, prod

from kb.errors import RecordError
from kb.records.front_matter import split_template
from kb.records.schema import Choices, Document, IdeaRecord, Knob, Recipe
from kb.records.types import Scope

Value = int | float | str | bool
COMPILER, REPLAY = "compiler", "replay"  # patterns of recipes that render no kernel of their own
_PRIOR = 0.2  # of a measurement: that a recipe is as fast as torch.compile


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeCard:
    """One idea with its recipe, refinements resolved.

    Attributes:
        template: None for a recipe that changes how the graph is cut instead of rendering a part.
        fixed: knobs that the idea sets once and for all.
        needs: limits that a target must name: it has no such unit else.
        measured: by target, what was measured of it: the size, see `size_of`, and the speed over torch.compile.
    """

    name: str
    title: str
    category: str
    text: str
    pattern: str
    template: str | None
    knobs: Mapping[str, Knob]
    fixed: Mapping[str, Value]
    flags: tuple[str, ...]
    scope: Scope
    needs: tuple[str, ...] = ()
    measured: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def expected(self, target: str, size: int | None = None) -> float:
        """Return its speed over torch.compile on `target`, a geometric mean of what was measured.

        What was measured on sizes that differ counts less, and a little says that nothing differs.

        Args:
            size: of the part, see `size_of`; None where that decides nothing.
        """
        weights, total = _PRIOR, 0.0
        for other, ratio in self.measured.get(target, ()):
            weight = 1.0 if size is None else min(other, size) / max(other, size, 1)
            weights, total = weights + weight, total + weight * log(ratio)
        return exp(total / weights)

    @property
    def renders(self) -> bool:
        """Whether it can be measured by itself: it changes neither where kernels come from nor how they are launched."""
        return self.pattern not in {COMPILER, REPLAY}

    @property
    def short(self) -> bool:
        """Whether it is for tensors of two bytes, which no task has to allow."""
        return self.fixed.get("operands") == "short"

    @property
    def shorter(self) -> bool:
        """Whether it rounds tensors of four bytes to shorter types, which a task has to allow."""
        dtypes = self.scope.dtype
        return bool(dtypes) and "float32" not in dtypes and not self.short

    def defaults(self) -> dict[str, Value]:
        """Return the knobs' first values."""
        return {name: default(knob) for name, knob in self.knobs.items()}

    def settings(self) -> Iterator[dict[str, Value]]:
        """Yield the defaults, then every setting that differs from them in one listed knob."""
        first = self.defaults()
        yield first
        for name, knob in self.knobs.items():
            for choice in knob.choices[1:] if isinstance(knob, Choices) else ():
                yield {**first, name: choice}

    def accept(self, knobs: Mapping[str, Value]) -> dict[str, Value]:
        """Return `knobs` with what is unknown or out of bounds replaced by the default."""
        chosen = self.defaults()
        for name, knob in self.knobs.items():
            if name in knobs and _allowed(knob, knobs[name]):
                chosen[name] = knobs[name]
        return chosen


def default(knob: Knob) -> Value:
    """Return the value of `knob` that is tried first."""
    return knob.choices[0] if isinstance(knob, Choices) else knob.default


def _allowed(knob: Knob, value: Value) -> bool:
    if isinstance(knob, Choices):
        return any(type(value) is type(choice) and value == choice for choice in knob.choices)
    inside = isinstance(value, int) and knob.low <= value <= knob.high
    return inside and (int(value) - knob.low) % knob.step == 0


def make_card(document: Document, find: Callable[[str], Document | None]) -> RecipeCard | None:
    """Return the card of an idea, None where it has no recipe.

    Args:
        find: returns the idea record of a name.

    Raises:
        RecordError: the recipe has no template, or refines an idea that has none.
    """
    record = document.record
    if not isinstance(record, IdeaRecord) or record.recipe is None or record.anti:
        return None
    template, knobs, fixed, flags = _resolve(document, record.recipe, find, ())
    return RecipeCard(
        name=document.name,
        title=record.title,
        category=record.category,
        text=split_template(document.body)[0],
        pattern=record.recipe.pattern,
        template=template,
        knobs=knobs,
        fixed=fixed,
        flags=flags,
        scope=record.scope.value(),
        needs=record.recipe.needs,
        measured=_measured(record) or _measured_like(record.recipe, find),
    )


def size_of(pattern: str, numbers: Sequence[int]) -> int:
    """Return what measurements of a pattern are likened by: the length of what is reduced, or the side of a cube.

    Args:
        numbers: of rows how many there are and how long; of a product or convolution whatever multiplies its work.
    """
    if pattern == "rows":
        return numbers[1]
    side: float = prod(numbers) ** (1 / 3)
    return round(side)


def _measured_like(
    recipe: Recipe, find: Callable[[str], Document | None]
) -> dict[str, tuple[tuple[int, float], ...]]:
    other = find(recipe.like) if recipe.like else None
    return _measured(other.record) if other and isinstance(other.record, IdeaRecord) else {}


def _measured(record: IdeaRecord) -> dict[str, tuple[tuple[int, float], ...]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for one in record.evidence:
        sizes = re.search(r"\d+(?:x\d+)+$", one.task)
        if (ratio := one.over_compile) is not None and sizes and record.recipe:
            size = size_of(record.recipe.pattern, [int(text) for text in sizes[0].split("x")])
            found.setdefault(one.target, []).append((size, ratio))
    return {target: tuple(listed) for target, listed in found.items()}


def _resolve(
    document: Document,
    recipe: Recipe,
    find: Callable[[str], Document | None],
    path: tuple[str, ...],
) -> tuple[str | None, dict[str, Knob], dict[str, Value], tuple[str, ...]]:
    if recipe.refines is None:
        template = split_template(document.body)[1]
        return template, dict(recipe.knobs), dict(recipe.set), recipe.flags
    parent = find(recipe.refines)
    known = isinstance(parent, Document) and isinstance(parent.record, IdeaRecord)
    if not known or parent is None or document.name in path:
        raise RecordError(
            f"{document.path}: refines {recipe.refines!r}, which has no recipe: name one that has"
        )
    assert isinstance(parent.record, IdeaRecord)
    if parent.record.recipe is None:
        raise RecordError(f"{document.path}: refines {recipe.refines!r}, which has no recipe")
    template, knobs, fixed, flags = _resolve(
        parent, parent.record.recipe, find, (*path, document.name)
    )
    fixed = {**fixed, **recipe.set}
    knobs = {name: knob for name, knob in {**knobs, **recipe.knobs}.items() if name not in fixed}
    return template, knobs, fixed, (*flags, *recipe.flags)


def make_cards(documents: Iterable[Document]) -> dict[str, RecipeCard]:
    """Return every idea with a recipe by name, in order of names."""
    by_name = {document.name: document for document in documents}
    cards = (make_card(by_name[name], by_name.get) for name in sorted(by_name))
    return {card.name: card for card in cards if card is not None}
