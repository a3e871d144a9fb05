"""Ideas that begin with torch.compile's code: all of it, then with one part more done by a recipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any

from kb.errors import NoRecipe
from search.attempt import Attempt, Moment
from search.codegen.inductor.seed import CompilerSeed
from search.codegen.library import COMPILER, RecipeCard
from search.codegen.next_recipes import RecipeProposal, choices, throughout
from search.codegen.plan import Choice, Composer, Plan
from search.codegen.segments import Segment

# Parts that cost less than this share of the whole by count are left to the compiler.
_LEAST = 0.02
_MOST = 0.9
_RECIPES = 3  # for one part


def whole(seed: CompilerSeed) -> Iterator[RecipeProposal]:
    """Yield the candidate that is torch.compile's code alone, where there is an idea record of it."""
    card = _card(seed.shop)
    if card is None or seed.refusal or seed.beside:
        return
    yield RecipeProposal(
        card=card,
        title=card.title,
        note="Here: the compiler's code for the whole of the reference; no part is replaced.",
        plan=seed.plan({}),
        focus=None,
    )


def between(seed: CompilerSeed) -> Iterator[RecipeProposal]:
    """Yield torch.compile's code with all products and convolutions done by recipes that are expected to be faster."""
    if _card(seed.shop) is None or seed.refusal:
        return
    kept, found, speed = throughout(seed.shop)
    if not found:
        return
    try:
        plan: dict[str, Any] = seed.plan(found, kept)
    except NoRecipe:
        return
    if not plan["whole"]:
        return  # nothing is left to the compiler
    card = seed.shop.cards[next(iter(found.values())).recipe]
    yield RecipeProposal(
        card=card,
        title=f"{card.title} within torch.compile's code, in {len(found)} places",
        note=(
            f"Here: in torch.compile's code {len(found)} products and convolutions are done by recipes, "
            f"{len(kept)} by the library."
        ),
        plan=plan,
        focus=None,
        speed=speed,
    )


def openings(seed: CompilerSeed) -> Iterator[RecipeProposal]:
    """Yield torch.compile's code with its costliest parts replaced, one each: what a run begins with."""
    if _card(seed.shop) is None or seed.refusal:
        return
    shares = seed.shares()
    for part in _parts(seed.shop, shares):
        if _cost(seed.shop, part, shares) > _MOST:
            continue  # next to nothing is left to the compiler: the recipes' own plans are that
        card = seed.shop.recipes(part)[0]
        choice = Choice(recipe=card.name, knobs=seed.shop.knobs(part, card) or {})
        yield from _replaced(seed, part, card, {part.id: choice}, shares)


def replacements(seed: CompilerSeed, moment: Moment) -> Iterator[RecipeProposal]:
    """Yield plans in which a recipe does one part more of torch.compile's code, the costliest part first.

    They change the parent where it is such code. Where it is not, and such code was right in this run,
    the recipes of the parent go one by one into the code.
    """
    parent = moment.parent
    card = _card(seed.shop)
    if parent is None or card is None or seed.refusal:
        return
    if parent.draft.plan.get("compiler"):
        yield from _further(seed, parent.draft.plan)
    elif any(one.merit and one.draft.plan.get("compiler") for one in moment.history):
        yield from _moved(seed, parent)


def _further(seed: CompilerSeed, plan: Plan) -> Iterator[RecipeProposal]:
    """Yield what differs from `plan` in one more part, or in one part's recipe."""
    kept, shares = choices(plan), seed.shares()
    for part in _parts(seed.shop, shares):
        for card in seed.shop.recipes(part)[:_RECIPES]:
            knobs = seed.shop.knobs(part, card) or card.defaults()
            if part.id in kept and kept[part.id].recipe == card.name:
                continue
            yield from _replaced(seed, part, card, {**kept, part.id: Choice(recipe=card.name, knobs=knobs)}, shares)  # fmt: skip


def _moved(seed: CompilerSeed, parent: Attempt) -> Iterator[RecipeProposal]:
    """Yield the compiler's code with one of the parent's recipes in it."""
    kept, shares = choices(parent.draft.plan), seed.shares()
    for part in _parts(seed.shop, shares):
        if part.id in kept and (card := seed.shop.cards.get(kept[part.id].recipe)):
            yield from _replaced(seed, part, card, {part.id: kept[part.id]}, shares)


def _replaced(
    seed: CompilerSeed,
    part: Segment,
    card: RecipeCard,
    chosen: Mapping[str, Choice],
    shares: Mapping[str, float],
) -> Iterator[RecipeProposal]:
    try:
        plan: dict[str, Any] = seed.plan(chosen)
    except NoRecipe:
        return
    if part.id not in plan["segments"]:
        return
    end = part.id.split(":", 1)[1]
    others = [name.split(":", 1)[1] for name in plan["segments"] if name != part.id]
    more = f" Recipes also do the parts that end with {', '.join(others)}." if others else ""
    yield RecipeProposal(
        card=card,
        title=f"{card.title} within torch.compile's code ({end})",
        note=(
            f"Here: in torch.compile's code the part that ends with {end}, {_cost(seed.shop, part, shares):.0%} of the "
            f"cost by count, is replaced by the recipe {card.name}.{more}"
        ),
        plan=plan,
        focus=part.id,
    )


def _parts(shop: Composer, shares: Mapping[str, float]) -> list[Segment]:
    """Return the parts that a recipe can do, the costliest first, each once."""
    found: dict[str, Segment] = {}
    for library in (shop.anchors, ()):
        for part in shop.cut(library):
            if part.pattern != "library" and shop.recipes(part):
                found.setdefault(part.id, part)
    costs = {name: _cost(shop, part, shares) for name, part in found.items()}
    ranked = sorted(found, key=lambda name: (-costs[name], name))
    return [found[name] for name in ranked if costs[name] >= _LEAST]


def _cost(shop: Composer, part: Segment, shares: Mapping[str, float]) -> float:
    return sum(shares.get(name, 0.0) for name in shop.of(part))


def _card(shop: Composer) -> RecipeCard | None:
    return next((card for card in shop.cards.values() if card.pattern == COMPILER), None)


def captured(card: RecipeCard, title: str, note: str, plan: Plan) -> RecipeProposal:
    """Return the idea to capture the launches of `plan`, which has this title and note."""
    return RecipeProposal(
        card=card,
        title=f"{card.title}: {title}",
        note=f"{note} Its launches are captured.",
        plan={**plan, "replayed": True},
        focus=None,
    )


def waiting(
    card: RecipeCard, parent: Attempt, symptoms: Collection[str]
) -> Iterator[RecipeProposal]:
    """Yield the idea to capture the launches of `parent`, where it is a plan that passed and waited for the host."""
    if parent.draft.plan and parent.merit and "launch-bound" in symptoms:
        note = f"Here: node {parent.number}, at which the device waits for the host."
        yield captured(card, parent.idea.title, note, parent.draft.plan)


def second(
    ahead: Iterator[RecipeProposal], sure: Iterable[RecipeProposal]
) -> Iterator[RecipeProposal]:
    """Yield the first of `ahead`, all of `sure`, the others of `ahead`: with two candidates nobody ends below `sure`."""
    yield from islice(ahead, 1)
    yield from sure
    yield from ahead


def in_turns(
    one: Iterable[RecipeProposal], other: Iterable[RecipeProposal]
) -> Iterator[RecipeProposal]:
    """Yield the first of `one`, the first of `other`, the second of `one`, until both are through."""
    for pair in zip_longest(one, other):
        yield from (item for item in pair if item is not None)
