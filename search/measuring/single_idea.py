"""One idea as a whole candidate, without a search: its defaults, then settings near them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from search.codegen.library import RecipeCard, Value
from search.codegen.next_recipes import COMBINE, PRODUCER, choices
from search.codegen.plan import Choice, Composer, Plan
from search.codegen.render import Unfit
from search.codegen.segments import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """A candidate that uses an idea.

    Attributes:
        chosen: knobs in words, with their recipes where it has several.
        focus: the part that differs from the first rendering, None where it is the first or all do.
    """

    source: str
    plan: Plan
    chosen: str
    focus: str | None = None


Fit = Literal["defaults", "other knobs", "none"]


def fit(shop: Composer, card: RecipeCard) -> Fit:
    """Say whether `card` can be used for the whole of a task, and whether its default knobs can.

    Args:
        shop: of the task, with every recipe that suits it.
    """
    first = next(renderings(shop, card), None)
    if first is None:
        return "none"
    own = [one["knobs"] for one in first.plan["segments"].values() if one["recipe"] == card.name]
    return "defaults" if all(knobs == card.defaults() for knobs in own) else "other knobs"


def renderings(shop: Composer, card: RecipeCard) -> Iterator[Rendering]:
    """Yield candidates that use `card`, its default knobs first; none where it does not fit.

    A recipe with a template does every part that is not the library's. Where the idea is to leave
    the products to the library, the rest is done by the preferred recipes. Where it is to combine
    what won, the candidates differ in one part each: `combined` puts the best together.

    Args:
        shop: of the task, with every recipe that suits it.
    """
    if card.pattern == PRODUCER:
        yield from _handed_over(shop)
    elif card.pattern == COMBINE:
        yield from _one_part_each(shop)
    else:
        yield from _alone(shop, card)


def combined(shop: Composer, tried: Sequence[tuple[Rendering, float]]) -> Rendering | None:
    """Return the candidate with the best choice for each part, None where none was right.

    Args:
        tried: what `renderings` yielded for an idea that combines, with merits, 0 for what failed.
    """
    if not any(merit > 0 for _, merit in tried):
        return None
    first, base = tried[0]
    merged = choices(first.plan)
    for one, merit in tried[1:]:
        if one.focus is not None and merit > base:
            merged[one.focus] = choices(one.plan)[one.focus]
    return _rendered(shop, shop.complete(first.plan["library"], merged))


def _alone(shop: Composer, card: RecipeCard) -> Iterator[Rendering]:
    one = shop.narrowed({card.name: card})
    for library in ((), shop.anchors):
        parts = _parts(one, library)
        firsts = [one.knobs(part, card) for part in parts]
        if not parts or None in firsts:
            continue
        settings = [first for first in firsts if first is not None]
        yield from _distinct(one, library, parts, card, [*settings, *card.settings()])
        return


def _distinct(
    shop: Composer,
    library: Sequence[str],
    parts: Sequence[Segment],
    card: RecipeCard,
    settings: Sequence[Mapping[str, Value]],
) -> Iterator[Rendering]:
    """Yield what the settings render to, each program once."""
    seen: set[str] = set()
    for knobs in settings:
        choice = Choice(recipe=card.name, knobs=knobs)
        found = _rendered(shop, shop.complete(library, {part.id: choice for part in parts}))
        if found is not None and found.source not in seen:
            seen.add(found.source)
            yield found


def _handed_over(shop: Composer) -> Iterator[Rendering]:
    parts = _parts(shop, shop.anchors)
    if not shop.anchors or not parts or not all(shop.recipes(part) for part in parts):
        return
    found = _rendered(shop, shop.complete(shop.anchors, {}))
    if found is not None:
        yield found


def _one_part_each(shop: Composer) -> Iterator[Rendering]:
    """Yield the preferred recipes for all parts, then what differs from that in one part."""
    for library in ((), shop.anchors):
        parts = _parts(shop, library)
        if len(parts) < 2 or not all(shop.recipes(part) for part in parts):
            continue
        plan = shop.complete(library, {})
        first = _rendered(shop, plan)
        if first is None:
            continue
        yield first
        for part in parts:
            other = _other(shop, part)
            if other is not None:
                changed = shop.complete(library, {**choices(plan), part.id: other})
                found = _rendered(shop, changed)
                if found is not None:
                    yield replace(found, focus=part.id)
        return


def _other(shop: Composer, part: Segment) -> Choice | None:
    """Return the choice to compare the preferred one of a part with: another recipe, or other knobs."""
    cards = shop.recipes(part)
    for card in cards[1:]:
        return Choice(recipe=card.name, knobs=shop.knobs(part, card) or {})
    first = shop.knobs(part, cards[0])
    others = (knobs for knobs in cards[0].settings() if knobs != first)
    fitting = (knobs for knobs in others if shop.suits(part, cards[0], knobs))
    found = next(fitting, None)
    return None if found is None else Choice(recipe=cards[0].name, knobs=found)


def _parts(shop: Composer, library: Sequence[str]) -> list[Segment]:
    return [part for part in shop.cut(library) if part.pattern != "library"]


def _rendered(shop: Composer, plan: Plan) -> Rendering | None:
    try:
        source = shop.source(plan)
    except Unfit:
        return None
    return Rendering(source=source, plan=plan, chosen=_chosen(plan))


def _chosen(plan: Plan) -> str:
    parts = list(plan["segments"].values())
    if len({part["recipe"] for part in parts}) == 1:
        return _knobs(parts[0]["knobs"])
    return ", ".join(f"{part['recipe']} ({_knobs(part['knobs'])})" for part in parts)


def _knobs(knobs: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in knobs.items()) or "no knobs"


def _value(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
