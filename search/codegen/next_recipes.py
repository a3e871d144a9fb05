"""What to try next: recipes that retrieval found, lessons that fit, and combinations that won."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import inf
from statistics import geometric_mean
from typing import Any

from kb.records.schema import LessonRecord
from kb.retrieval.lesson_confidence import effect_of, standing
from search.attempt import Attempt, Moment
from search.codegen.attention import apart
from search.codegen.library import RecipeCard
from search.codegen.plan import Choice, Composer, Plan, distance, launches, launching, sizes
from search.codegen.segments import ATTENTION, Segment
from search.costs.trace import family
from search.costs.work import operator_costs

# Whether it starts from the reference, the pattern of the segment, and the idea's name.
Topic = tuple[bool, str, str]
PRODUCER = "producer"
COMBINE = "combine"
# A lesson of a segment further away than this (a factor of about twenty in all sizes) says little about its knobs.
_NEAR = 3.0
# Log gain of the whole; what lessons of other work promise below it counts nothing.
_LITTLE = 0.05
_ANCHORS = 16  # products and convolutions that are taken from the library one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeProposal:
    """An idea before it is known whether it makes a new source.

    Attributes:
        focus: the segment that it changes, None for several at once.
        note: what the idea means for this task.
        lesson: name of the lesson that it starts from.
        share: of the whole's cost that lies in the part that it changes.
        speed: of the whole over torch.compile, as expected where the recipe is as fast on its part as it was elsewhere.
    """

    card: RecipeCard
    title: str
    note: str
    plan: Plan
    focus: str | None
    lesson: str | None = None
    share: float = 1.0
    speed: float = 1.0


def choices(plan: Plan) -> dict[str, Choice]:
    """Return the choices of `plan` by segment."""
    return {
        name: Choice(recipe=chosen["recipe"], knobs=chosen["knobs"])
        for name, chosen in plan.get("segments", {}).items()
    }


def start(shop: Composer, base: frozenset[str], parent: Attempt | None) -> dict[str, Any]:
    """Return the plan that new ideas change: the parent's, or every part's preferred recipe."""
    if parent is None or "segments" not in parent.draft.plan:
        return shop.complete(base, {})
    plan = parent.draft.plan
    library = base if plan.get("compiler") else plan["library"]
    return shop.complete(library, choices(plan))


def proposals(
    shop: Composer,
    plan: Plan,
    moment: Moment,
    retrieved: Sequence[str],
    expected: Mapping[Topic, float] | None = None,
    busy: float = 0.0,
) -> Iterator[RecipeProposal]:
    """Yield every change of one part of `plan`: untried first, then in the order of retrieval.

    Among the untried, those come first that earlier runs give reason to expect something of, and
    after the others those that lost or failed there; of equals those of which measurements of their records
    let expect most (where there is little to do, those with fewer launches), then those of shorter types. What passed before is tuned further once the untried are through, the best first; what failed on this parent comes
    last.

    Args:
        busy: seconds that the work takes a GPU at least; 0 for a processor.
    """
    rank = {name: at for at, name in enumerate(retrieved)}
    best = _best(moment)
    root = moment.parent is None
    found = list(_changes(shop, plan, root=root))

    def order(proposal: RecipeProposal) -> tuple[int, float, float, float, bool, int, str]:
        card, name = proposal.card, proposal.card.name
        gained = best.get((proposal.focus, name))
        tier = 0 if gained is None else 1 if gained > 0 else 2
        # A handover changes no segment: its lesson names no pattern.
        pattern = "" if proposal.focus is None else proposal.focus.partition(":")[0]
        hope = (expected or {}).get((root, pattern, name), 0.0)
        if shop.anchors:  # what elementwise work gained by itself is less beside a product
            whole = math.log(_amdahl(proposal.share, math.exp(hope)))
            hope = whole if abs(whole) >= _LITTLE else 0.0
        longer = not card.shorter
        return (
            tier,
            -(gained or 0.0),
            -hope,
            busy / proposal.speed + launching(launches(proposal.plan)) if busy else -proposal.speed,
            longer,
            rank.get(name, len(rank)),
            name,
        )

    for proposal in sorted(found, key=order):
        if best.get((proposal.focus, proposal.card.name)):
            yield replace(proposal, title=f"Tune further: {proposal.title}")
        else:
            yield proposal


def throughout(shop: Composer) -> tuple[frozenset[str], dict[str, Choice], float]:
    """Return recipes for all products and convolutions that they are expected to do no slower than the library.

    Returns:
        What stays the library's, the recipes by segment, and their speed over torch.compile as expected.
    """

    def worse(part: Segment) -> bool:
        found = shop.recipes(part)
        return not found or shop.expected(part, found[0]) < 1

    anchors = frozenset(shop.anchors)
    kept = frozenset(p.anchor for p in shop.cut(()) if p.anchor in anchors and worse(p))
    parts = [part for part in shop.cut(kept) if part.anchor in anchors - kept]
    found = {part.id: (part, shop.recipes(part)) for part in parts}
    choices = {
        name: Choice(recipe=cards[0].name, knobs=shop.knobs(part, cards[0]) or {})
        for name, (part, cards) in found.items()
        if cards
    }
    expected = [shop.expected(part, cards[0]) for part, cards in found.values() if cards]
    return kept, choices, geometric_mean(expected or [1.0])


def whole_program(shop: Composer) -> Iterator[RecipeProposal]:
    """Yield the plan in which recipes do several products and convolutions at once, and all that is between."""
    kept, found, speed = throughout(shop)
    if len(found) < 2:
        return
    card = shop.cards[next(iter(found.values())).recipe]
    yield RecipeProposal(
        card=card,
        title=f"{card.title}, in {len(found)} places",
        note=f"Here: recipes do {len(found)} products and convolutions, the library {len(kept)}.",
        plan=shop.complete(kept, found),
        focus=None,
        speed=speed,
    )


def _best(moment: Moment) -> dict[tuple[str | None, str], float]:
    """Return the best speed-up of every change that was tried, 0 where it never passed here."""
    parent = moment.parent.number if moment.parent else None
    found: dict[tuple[str | None, str], float] = {}
    for attempt in moment.history:
        if attempt.merit or attempt.parent == parent:
            key = (attempt.idea.plan.get("focus"), attempt.idea.record or "")
            found[key] = max(found.get(key, 0.0), attempt.merit)
    return found


def _changes(shop: Composer, plan: Plan, *, root: bool) -> Iterator[RecipeProposal]:
    library = frozenset(plan["library"])
    kept = choices(plan)
    costs = operator_costs(shop.program.graph)
    parts = [part for part in shop.cut(library) if part.pattern != "library"]
    for part in parts:
        yield from _swaps(shop, library, kept, part, costs, several=len(parts) > 1)
    for whole in (one for one in shop.cut(()) if one.pattern == ATTENTION):
        fewer = library - whole.anchors
        for more in (fewer, fewer | {apart(whole)}):
            for part in shop.cut(more) if more != library else ():
                if part.anchors & whole.anchors:
                    yield from _swaps(shop, more, kept, part, costs, several=True)
    for anchor in _costliest(library, costs):
        fewer = library - {anchor}
        for part in shop.cut(fewer):
            if part.anchor == anchor and part.pattern != "library":
                yield from _swaps(shop, fewer, kept, part, costs, several=len(shop.anchors) > 1)
    if shop.library:
        yield from _handovers(shop, library, kept, root=root)


def _share(shop: Composer, parts: Sequence[Segment], costs: Mapping[str, float]) -> float:
    """Return the share of `parts` in the cost of the whole."""
    nodes = (shop.program.nodes[name] for part in parts for name in part.nodes)
    operators = {node.operator for node in nodes} | {part.anchor for part in parts}
    cost = sum(costs.get(name or "", 0.0) for name in operators)
    return min(cost / (sum(costs.values()) or 1.0), 1.0)


def _amdahl(share: float, speed: float) -> float:
    """Return the speed of the whole where a share of its cost has `speed` and the rest stays."""
    return 1 / (1 - share + share / speed)


def _costliest(library: frozenset[str], costs: Mapping[str, float]) -> list[str]:
    """Return the anchors of `library` that one plan each is made for: each cuts the graph anew."""
    return sorted(library, key=lambda name: (-costs.get(name, 0.0), name))[:_ANCHORS]


def _swaps(
    shop: Composer,
    library: frozenset[str],
    kept: Mapping[str, Choice],
    part: Segment,
    costs: Mapping[str, float],
    *,
    several: bool,
) -> Iterator[RecipeProposal]:
    share = _share(shop, [part], costs)
    for card in shop.recipes(part):
        knobs = shop.knobs(part, card) or card.defaults()
        if part.id in kept and kept[part.id].recipe == card.name:
            knobs = card.accept(kept[part.id].knobs)
        plan = shop.complete(library, {**kept, part.id: Choice(recipe=card.name, knobs=knobs)})
        end = part.id.split(":", 1)[1]
        yield RecipeProposal(
            card=card,
            title=f"{card.title} ({end})" if several else card.title,
            note=f"Here: the part that ends with {end}.",
            plan=plan,
            focus=part.id,
            share=share,
            speed=_amdahl(share, shop.expected(part, card)),
        )


def _handovers(
    shop: Composer, library: frozenset[str], kept: Mapping[str, Choice], *, root: bool
) -> Iterator[RecipeProposal]:
    """Leave a convolution or a product to the library and fuse what follows it."""
    card = next((card for card in shop.cards.values() if card.pattern == PRODUCER), None)
    if card is None:
        return
    for anchor in shop.anchors:
        if anchor in library and not root:
            continue
        more = library | {anchor}
        plan = shop.complete(more, kept)
        if not plan["segments"]:
            continue  # the bare library call: that is what it must beat
        yield RecipeProposal(
            card=card,
            title=card.title if len(shop.anchors) == 1 else f"{card.title} ({anchor})",
            note=f"Here: the library computes {anchor}.",
            plan=plan,
            focus=None,
            speed=card.expected(shop.target),
        )


def combine(
    shop: Composer, parent: Attempt, plan: Plan, history: Sequence[Attempt]
) -> Iterator[RecipeProposal]:
    """Take from other attempts what they chose for parts that the parent's idea did not touch."""
    card = next((card for card in shop.cards.values() if card.pattern == COMBINE), None)
    if card is None or len(plan["segments"]) < 2:
        return
    best: dict[str, Attempt] = {}
    for attempt in history:
        focus = attempt.idea.plan.get("focus")
        if focus is None or focus not in plan["segments"]:
            continue
        if not attempt.merit or focus == parent.idea.plan.get("focus"):
            continue
        if focus not in best or attempt.merit > best[focus].merit:
            best[focus] = attempt
    merged = choices(plan)
    for focus, attempt in best.items():
        merged[focus] = choices(attempt.draft.plan).get(focus, merged[focus])
    if merged == choices(plan):
        return
    numbers = ", ".join(str(attempt.number) for attempt in best.values())
    yield RecipeProposal(
        card=card,
        title=card.title,
        note=f"Here: the choices of node {parent.number} with those of {numbers}.",
        plan=shop.complete(plan["library"], merged),
        focus=None,
    )


def from_lessons(
    shop: Composer,
    base: frozenset[str],
    lessons: Sequence[tuple[str, LessonRecord]],
    architecture: str,
) -> Iterator[RecipeProposal]:
    """Yield the plans that won on similar segments, the nearest and most trusted first.

    Those that won on another architecture come after all that won on this one. A lesson from which little is to be
    expected is left out: it was contradicted as often as it was confirmed, or it is of elementwise work beside which
    this task has products or convolutions.
    """
    found: list[tuple[bool, float, str, RecipeProposal]] = []
    day, costs = newest(lessons), operator_costs(shop.program.graph)
    heavy = {family(shop.program.operators[name]) for name in shop.anchors}
    for name, lesson in lessons:
        worth = standing(lesson, day).expected
        if lesson.plan is None or effect_of(lesson) != "wins" or worth <= 0:
            continue
        if (plan := _from_lesson(shop, base, name, lesson)) is None:
            continue
        gap, parts, proposal = plan
        if heavy and lesson.scope.operator and not heavy & {*lesson.scope.operator}:
            worth = math.log(_amdahl(_share(shop, parts, costs), math.exp(worth)))
            if worth < _LITTLE:
                continue
        elsewhere = architecture not in (lesson.scope.architecture or (architecture,))
        found.append((elsewhere, gap / _NEAR - worth, name, proposal))
    found.sort(key=lambda entry: entry[:3])
    yield from (proposal for *_, proposal in found)


def newest(lessons: Sequence[tuple[str, LessonRecord]]) -> date:
    """Return the day of the newest measurement: age counts from there, whatever today is.

    A resumed run, on another day, must weigh the lessons as an unbroken one does.
    """
    days = (one.at for _, lesson in lessons for one in lesson.evidence if one.at is not None)
    return max(days, default=date.min)


def learned(
    lessons: Sequence[tuple[str, LessonRecord]], architecture: str, languages: Sequence[str]
) -> dict[Topic, float]:
    """Return the log speed-up that earlier runs give reason to expect of a recipe on a pattern.

    Only what was measured on this architecture, and in a language that is written here, counts.
    """
    day = newest(lessons)
    sums: dict[Topic, list[float]] = {}
    for _, lesson in lessons:
        claim, scope = lesson.claim, lesson.scope
        if claim is None or lesson.idea is None or claim.effect == "wins":
            continue
        if architecture not in scope.architecture or not set(languages) & set(scope.language):
            continue
        topic = (claim.basis == "reference", claim.pattern, lesson.idea)
        sums.setdefault(topic, []).append(standing(lesson, day).expected)
    return {topic: sum(values) / len(values) for topic, values in sums.items()}


def _from_lesson(
    shop: Composer, base: frozenset[str], name: str, lesson: LessonRecord
) -> tuple[float, Sequence[Segment], RecipeProposal] | None:
    """Return the plan of a lesson, with the distance of the segments that it is about and those; None where there are none."""
    assert lesson.plan is not None
    known: Mapping[str, Any] = lesson.plan.get("segments", {})
    whole = {chosen["pattern"] for chosen in known.values()} & {"conv", "matmul"}
    # Where the lesson computed its convolutions and products itself, so does this plan, as far as recipes do.
    library = base if shop.library else frozenset()
    if whole and shop.library:
        library = frozenset(shop.anchors) - {p.anchor for p in shop.cut(()) if shop.recipes(p)}
    near: dict[str, tuple[float, Mapping[str, Any]]] = {}
    parts = shop.cut(library)
    for part in parts:
        for chosen in known.values():
            if chosen["pattern"] != part.pattern or chosen["recipe"] not in shop.cards:
                continue
            if shop.knobs(part, shop.cards[chosen["recipe"]]) is None:
                continue
            gap = distance(chosen["dims"], sizes(shop.program, part))
            if gap < min(_NEAR, near.get(part.id, (inf,))[0]):
                near[part.id] = (gap, chosen)
    if not near:
        return None
    picked = {
        part: Choice(recipe=chosen["recipe"], knobs=chosen["knobs"])
        for part, (_, chosen) in near.items()
    }
    first = min(near, key=lambda part: near[part][0])
    card = shop.cards[near[first][1]["recipe"]]
    evidence = lesson.evidence[0]
    proposal = RecipeProposal(
        card=card,
        title=f"Start from what won on {evidence.task}: {card.title}",
        note=f"Here: recipes and knobs of the lesson {name}.",
        plan=shop.complete(library, picked),
        focus=first,
        lesson=name,
    )
    mine = [part for part in parts if part.id in near]
    return sum(gap for gap, _ in near.values()), mine, proposal
